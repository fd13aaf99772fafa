// Package clienttest has clients that others wrote, installed by npm, talk to a server. It has
// tests only.
package clienttest
