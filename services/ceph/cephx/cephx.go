// Package cephx makes keys of Ceph's authentication (cephx) from other ones, so that whoever has one key, such as a
// monitor, knows those of many and each of these tells nothing of the others.
//
// A key is what Ceph writes (src/auth/Crypto.cc, CryptoKey::encode) in base64: le16 type, 1 for AES; le32 seconds and
// le32 nanoseconds of its making; le16 length; the key.
//
// github.com/ceph/go-ceph binds Ceph's libraries by cgo, for a cluster that runs. These keys are made before there is
// one, and the agent is built without cgo.
package cephx

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
)

// Users of Ceph that every node of a role has one of, with the name of the node behind a dot.
const (
	// OSD asks for the numbers of new OSDs.
	OSD = "client.bootstrap-osd"
	// RBD makes and maps the volumes of Kubernetes.
	RBD = "client.kubernetes-rbd"
	// CephFS makes and mounts the shared volumes of Kubernetes. Without a node's name it is a Kubernetes elsewhere.
	CephFS = "client.kubernetes-cephfs"
)

// Sizes in bytes: what stands before a key, and a key of AES-128.
const (
	header = 12
	size   = 16
)

// ErrForm says that a text is not a key.
var ErrForm = errors.New("it is not a Ceph key")

// Derive is the key for a purpose: HMAC-SHA256 of that under the seed, which is a key itself. It is as old as the seed,
// since Ceph's monitors let no older key take the place of a newer one.
func Derive(seed, purpose string) (string, error) {
	k, err := base64.StdEncoding.DecodeString(strings.TrimSpace(seed))
	if err != nil || len(k) != header+size || binary.LittleEndian.Uint16(k) != 1 || binary.LittleEndian.Uint16(k[10:]) != size {
		return "", ErrForm
	}
	mac := hmac.New(sha256.New, k[header:])
	mac.Write([]byte(purpose))
	b := binary.LittleEndian.AppendUint16(nil, 1)
	b = append(b, k[2:10]...)
	b = binary.LittleEndian.AppendUint16(b, size)
	return base64.StdEncoding.EncodeToString(append(b, mac.Sum(nil)[:size]...)), nil
}

// ForNode is the key of one node's user of a kind, such as RBD. Monitors make the same of the seed.
func ForNode(seed, entity, node string) (string, error) {
	return Derive(seed, "spore "+entity+" of "+node)
}
