// Package browsertest drives the dashboard in a real browser against a real
// greenroom process. It has tests only; see browser_test.go for the variables
// that steer them.
package browsertest
