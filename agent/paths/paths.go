// Package paths holds the places on a node that the agent's parts agree on. Everything under /run is of this boot only;
// what lasts is under /var/lib/spore.
package paths

import "path/filepath"

// Files and directories of the agent.
const (
	// Identity says which node the machine is (JSON, package detect).
	Identity = "/run/spore/identity.json"
	// NodeFile stands for the node's file in nodes/ where the configuration has none.
	NodeFile = "/run/spore/node.yaml"
	// PhaseTwo exists while only the network can say which node the machine is.
	PhaseTwo = "/run/spore/phase-two"
	// Probe exists when static addresses have to be probed before networkd uses them.
	Probe = "/run/spore/probe"
	// Conflicts lists addresses that another machine uses (JSON, package arp).
	Conflicts = "/run/spore/conflicts.json"
	// State says what /var is (JSON, package state).
	State = "/run/spore/state.json"
	// StateKeys holds keys of encrypted state while a program reads them, for root alone.
	StateKeys = "/run/spore/state-keys"
	// StateESP is where the EFI system partition of the boot medium is mounted for a moment, for the host key.
	StateESP = "/run/spore/state-keys/esp"
	// StateMeasured exists once the TPM knows that the state was opened in this boot.
	StateMeasured = "/run/spore/state-measured"
	// PCRPublicKey signs what PCR 11 will be; it is there when the image has such a signature (systemd-stub(7)).
	PCRPublicKey = "/run/systemd/tpm2-pcr-public-key.pem"
	// MountOptions is libmount's table of what the kernel does not keep of mounts.
	MountOptions = "/run/mount/utab"
	// Repart holds the definitions for systemd-repart.
	Repart = "/run/spore/repart.d"
	// Disks holds, for each use of data disks, what became of them (JSON, package datadisk).
	Disks = "/run/spore/disks"
	// OSDs holds the runtime directory of each OSD, by the number of its disk.
	OSDs = "/run/ceph-osd"
	// Secrets holds a directory for each program, and in it one file for each secret that it is given; for root alone.
	Secrets = "/run/spore/secrets"
	// Live holds, for each program that reads its certificates again while it runs, those and their keys: a link to a
	// directory that is replaced as a whole.
	Live = "/run/spore/live"
	// Trust holds whom the node trusts: the public half of the cluster's keys, from the image or the bundle, whichever is
	// newer.
	Trust = "/run/spore/trust"
	// Inbox is where spore-api leaves a bundle that the operator sent, for root to take.
	Inbox = "/run/spore/inbox"
	// Signer is the socket of what signs other nodes' certificates, on masters.
	Signer = "/run/spore/signer.sock"
	// LookSocket and ActSocket are where the API's server hands over what a person asks the node to do (package verbs).
	LookSocket = "/run/spore/look.sock"
	ActSocket  = "/run/spore/act.sock"
	// ChoiceSocket is where a node is chosen for a machine that matches none, and ChoiceLock is locked meanwhile (package
	// choice).
	ChoiceSocket = "/run/spore/choice.sock"
	ChoiceLock   = "/run/spore/choice.lock"
	// ShellSocket is where the API's server hands over an emergency shell, on images that have one (package shell).
	ShellSocket = "/run/spore/shell.sock"
	// ShellLock is locked while such a shell is open, and Shells holds what is kept of them (package kept).
	ShellLock = "/run/spore/shell.lock"
	Shells    = "/var/lib/spore/shells"
	// Acts holds a file for each family of verbs, which is locked while one of them is carried out (package verbs).
	Acts = "/run/spore/acts"
	// Paused holds a file for each process that has stopped units for a while (package pause).
	Paused = "/run/spore/paused"
	// Leaving is touched by this node before it takes itself out of its quorums for a while (package majority).
	Leaving = "/run/spore/leaving"
	// Trail holds the records of calls that had this node, or another one, change something (package trail).
	Trail = "/var/lib/spore-api/trail"
	// Renewal says how far the node is with renewing its certificates (JSON, package renewal).
	Renewal = "/run/spore/renewal/state.json"
	// Bundle is the directory of what became of the node's bundle.
	Bundle = "/run/spore/bundle"
	// BundleInfo says it (JSON).
	BundleInfo = Bundle + "/info.json"
	// BundleOpened holds what a passphrase opened a delivered bundle to, behind the hash of its file, until it is taken.
	BundleOpened = Bundle + "/opened"
	// BundleAsk exists while a bundle waits for its passphrase.
	BundleAsk = Bundle + "/ask"
	// BundleEnroll exists while a machine that was started from a disk has no bundle and a server to ask for one.
	BundleEnroll = Bundle + "/enroll"
	// ESP is where the EFI system partition of the boot medium is mounted for a moment, by one unit for itself.
	ESP = "/run/spore/bundle/esp"
	// Waiting holds a file for each service whose start waits for other nodes, and in it for which.
	Waiting = "/run/spore/waiting"
	// Times holds one file for each step of the boot: seconds since boot at which it was done.
	Times = "/run/spore/times"
	// Status is the last status line.
	Status = "/run/spore/status.json"
	// Binding is the file on the state partition that says whose it is.
	Binding = "/var/lib/spore/state.json"
	// StoredBundle is the sealed bundle, UnopenedBundle one that this machine could not open when another came.
	StoredBundle   = "/var/lib/spore/bundle.cred"
	UnopenedBundle = "/var/lib/spore/bundle.unopened.cred"
	// BundleTaken remembers which encrypted file the stored bundle came in.
	BundleTaken = "/var/lib/spore/bundle.taken"
	// Leaves holds, sealed, the certificates that were made again on the node.
	Leaves = "/var/lib/spore/leaves.cred"
	// EnrollKey is the sealed key by which the machine asks for its bundle.
	EnrollKey = "/var/lib/spore/enroll.cred"
	// Formation holds what this node's member of each quorum service knows of itself (package formation).
	Formation = "/var/lib/spore/formation"
	// HostKey is systemd's key of this machine (systemd-creds(1)).
	HostKey = "/var/lib/systemd/credential.secret"
	// Time holds what concerns the clock of this boot: TimeState says what it is worth (JSON, package clock), ClockWrong
	// exists when it could not be right at the start, TimeServer when the node is one that others ask.
	Time       = "/run/spore/time"
	TimeState  = Time + "/state.json"
	ClockWrong = Time + "/wrong"
	TimeServer = Time + "/serve"
	// Clock holds the last time seen.
	Clock = "/var/lib/spore/clock"
	// ClusterConfig is where programs and people read the configuration.
	ClusterConfig = "/etc/cluster-config"
	// Environment holds one environment file for each service.
	Environment = "/etc/cluster-config/environment"
)

// Root is the directory that stands for /: "/" on a node, a temporary directory in tests.
type Root string

// At is where path lies under the root.
func (r Root) At(path string) string { return filepath.Join(string(r), path) }
