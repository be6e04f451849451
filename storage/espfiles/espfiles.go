// Package espfiles names the files by which an EFI system partition says which node a machine becomes, brings its secrets,
// and has the machine install itself. All of it is untrusted: whoever has the medium can write it.
//
// They do not lie in /loader/credentials: systemd-stub(7) measures what it finds there into PCR 12, so that the
// register would change when the bundle is taken off the medium, and state that is bound to it would not open any more.
package espfiles

const (
	// Node holds the name of the node that the medium chooses.
	Node = "/spore/node"
	// ChosenHere holds the name of a node that somebody chose on the machine itself, and is there before Node is. Only such a
	// choice can be undone there, and only while Node says the same.
	ChosenHere = "/spore/chosen-here"
	// Bundle holds the node's bundle of secrets.
	Bundle = "/spore/bundle"
	// Answers is an answer file (package answers): the machine installs itself as it says.
	Answers = "/spore/answers"
	// Installed says on an installed disk by which answer file, of which medium, it came about. That medium's file does
	// not install again over what the disk was updated to since.
	Installed = "/spore/installed"
)
