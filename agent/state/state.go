// Package state gives the node its /var: a partition that systemd-repart makes on the disk that the node names, else in the
// free space of the boot disk, else a tmpfs with a plain warning.
//
// The partition is bound to the cluster id and the node's name twice: by its PARTUUID, and by a file on it that is checked
// after mounting. What belongs to another cluster or node, and any disk that is not proved empty, is refused and not
// touched; the message says which command would adopt or reset it.
//
// Where the configuration asks for it, the partition is encrypted when it is made (package unlock). State that is there
// already and is not encrypted is refused then, and not touched. State that is encrypted is used where the
// configuration does not ask for it, and the warning says so.
package state

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"spore/agent/unlock"
	"spore/storage/gpt"
)

// Partition types (Discoverable Partitions Specification; cluster is ours).
var (
	typeESP     = gpt.MustParseGUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
	typeRoot    = gpt.MustParseGUID("4f68bce3-e8cd-4db1-96e7-fbcaf984b709")
	typeVerity  = gpt.MustParseGUID("2c7357ed-ebd2-46d9-aec1-23d437ec2bf5")
	typeCluster = gpt.MustParseGUID("6b0d4b7e-5c0a-4e0e-9d55-73706f726500")
	// typeISO is that of the ISO's own files.
	typeISO = gpt.MustParseGUID("8da63339-0007-60c0-c436-083ac8230908")
	typeVar = gpt.MustParseGUID("4d21b016-b534-45c2-a9fb-5c16e091fd2d")
)

// Label is the GPT name of state partitions.
const Label = "spore-state"

// MinSize is the smallest state partition in bytes that is made; in less, an ext4 journal leaves no room worth having.
const MinSize = 256 << 20

// Kinds of /var.
const (
	Partition = "partition"
	Tmpfs     = "tmpfs"
)

// Info says what /var is (/run/spore/state.json).
type Info struct {
	Kind string `json:"kind"`
	// Device, PartUUID and Disk (serial number) are set for a partition. Device is what is mounted.
	Device   string `json:"device,omitempty"`
	PartUUID string `json:"partUUID,omitempty"`
	Disk     string `json:"disk,omitempty"`
	// Encryption says how an encrypted partition was opened; nil when it is not encrypted.
	Encryption *unlock.Info `json:"encryption,omitempty"`
	// Warning says in words what is not as it should be.
	Warning string `json:"warning,omitempty"`
	// Refused says that there is state, or a disk for it, that could not be used. Roles are held back then: they must not
	// begin anew beside data that is only out of reach.
	Refused bool `json:"refused,omitempty"`
}

// Refusal is an error that means: something is there, and it was not touched.
type Refusal struct{ Reason string }

func (r Refusal) Error() string { return r.Reason }

func refuse(format string, a ...any) error { return Refusal{fmt.Sprintf(format, a...)} }

// AsInfo makes the result of a failed choice: a tmpfs, and why.
func AsInfo(err error) Info {
	var r Refusal
	return Info{Kind: Tmpfs, Warning: err.Error() + "; /var is a tmpfs and its content will be lost", Refused: errors.As(err, &r)}
}

// PartUUID is the PARTUUID of a node's state partition: an RFC 9562 version 8 UUID made of the first 16 bytes of
// HMAC-SHA256 of "spore state NODE" under the cluster id in lower case.
func PartUUID(clusterID, node string) gpt.GUID {
	mac := hmac.New(sha256.New, []byte(strings.ToLower(clusterID)))
	mac.Write([]byte("spore state " + node))
	var g gpt.GUID
	copy(g[:], mac.Sum(nil))
	g[6] = g[6]&0x0f | 0x80
	g[8] = g[8]&0x3f | 0x80
	return g
}
