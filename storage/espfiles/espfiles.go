// Package espfiles names the files by which an EFI system partition says which node a machine becomes, and brings its
// secrets. All of it is untrusted: whoever has the medium can write it.
//
// They do not lie in /loader/credentials: systemd-stub(7) measures what it finds there into PCR 12, so that the
// register would change when the bundle is taken off the medium, and state that is bound to it would not open any more.
package espfiles

const (
	// Node holds the name of the node that the medium chooses.
	Node = "/spore/node"
	// Bundle holds the node's bundle of secrets.
	Bundle = "/spore/bundle"
)
