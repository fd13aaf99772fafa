// Package dashboard holds server/dist, which the binary embeds, to what web/
// builds. It is apart from the other checks because it takes longer than all of
// them: it installs the build's tools.
package dashboard
