// Package datadisk gives the services of a node the disks that its file names: for Kafka a file system each, for Ceph a
// partition each that BlueStore is made on, encrypted where asked.
//
// A disk is taken when it was proved empty or carries our own partition, which is known by a PARTUUID made of the cluster id
// and what the disk is named by. Anything else is refused with what is on it, and left as it is. One disk that is missing
// or refused keeps back none of the others.
package datadisk

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spore/agent/paths"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// Uses of disks, as node files write them.
const (
	Kafka = "kafka"
	OSD   = "osd"
)

// Partition types. Kafka's is that of generic data, which nothing mounts by itself (Discoverable Partitions Specification);
// those of OSDs are Ceph's own, by which tools know them (ceph-volume, util/constants.py).
var (
	typeData    = gpt.MustParseGUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
	typeOSD     = gpt.MustParseGUID("4fbd7e29-9d25-41b8-afd0-062c0ceff05d")
	typeLUKSOSD = gpt.MustParseGUID("4fbd7e29-9d25-41b8-afd0-35865ceff05d")
)

// use is what is particular to a use.
type use struct {
	name string
	// what is what messages and the marker call a disk of this use, label the GPT name of its partition.
	what, label string
	// minimum is the smallest partition in bytes.
	minimum int64
}

var uses = map[string]use{
	Kafka: {Kafka, "Kafka disk", "spore-kafka", 256 << 20},
	// Less than that leaves an OSD no room beside its own tables.
	OSD: {OSD, "Ceph OSD", "spore-osd", 1 << 30},
}

// kind is the type of the partition.
func (u use) kind(encrypt bool) gpt.GUID {
	switch {
	case u.name == Kafka:
		return typeData
	case encrypt:
		return typeLUKSOSD
	}
	return typeOSD
}

// Info says what became of one disk (a list of them is /run/spore/disks/USE.json).
type Info struct {
	Use string `json:"use"`
	// Number counts the node's disks of this use from 1, in the order of its file.
	Number int `json:"number"`
	// Selector is what the node's file names the disk by.
	Selector string `json:"selector"`
	// Disk is the kernel's name of the disk in this boot, Serial its serial number; empty while there is none.
	Disk   string `json:"disk,omitempty"`
	Serial string `json:"serial,omitempty"`
	// PartUUID is that of our partition, Device what the service uses: the partition, or what is decrypted of it.
	PartUUID string `json:"partUUID,omitempty"`
	Device   string `json:"device,omitempty"`
	// Mount is where a file system is mounted.
	Mount string `json:"mount,omitempty"`
	// OSD is the number that the Ceph cluster has given to it.
	OSD *int `json:"osd,omitempty"`
	// Problem says why the disk is not used. It was not changed then.
	Problem string `json:"problem,omitempty"`
}

// Read reads what became of the disks of a use.
func Read(root paths.Root, use string) ([]Info, error) {
	var out []Info
	if err := atomicfile.ReadJSON(root.At(paths.Disks+"/"+use+".json"), &out); err != nil {
		return nil, fmt.Errorf("read what became of the disks (has %s run?): %w", Unit(use), err)
	}
	return out, nil
}

// Write keeps it.
func Write(root paths.Root, use string, infos []Info) error {
	return atomicfile.WriteJSON(root.At(paths.Disks+"/"+use+".json"), infos)
}

// Unit is the service that prepares the disks of a use.
func Unit(use string) string {
	if use == Kafka {
		return "kafka-disks.service"
	}
	return "ceph-disks.service"
}

// Problems joins what is wrong with the disks; nil when nothing is.
func Problems(infos []Info) error {
	var errs []error
	for _, i := range infos {
		if i.Problem != "" {
			errs = append(errs, errors.New(i.Problem))
		}
	}
	return errors.Join(errs...)
}

// PartUUID is the PARTUUID of our partition on a disk that has the name: an RFC 9562 version 8 UUID made of the first 16
// bytes of HMAC-SHA256 of "spore USE disk NAME" under the cluster id, both in lower case. The node is not in it: an OSD goes
// with its disk.
func PartUUID(clusterID, use, name string) gpt.GUID {
	mac := hmac.New(sha256.New, []byte(strings.ToLower(clusterID)))
	mac.Write([]byte("spore " + use + " disk " + strings.ToLower(strings.TrimSpace(name))))
	var g gpt.GUID
	copy(g[:], mac.Sum(nil))
	g[6] = g[6]&0x0f | 0x80
	g[8] = g[8]&0x3f | 0x80
	return g
}

// partUUIDs are those that our partition on the disk may have, the first for a new one. A disk has several names, so that
// its file may come to select it by another one.
func partUUIDs(clusterID, use string, d disk.Disk) []gpt.GUID {
	var out []gpt.GUID
	for _, names := range [][]string{d.Serials, d.WWNs, d.ByID} {
		for _, n := range names {
			out = append(out, PartUUID(clusterID, use, n))
		}
	}
	return out
}

// Of lists the node's disks of a use, in order.
func Of(disks []spec.Disk, use string) []spec.Disk {
	var out []spec.Disk
	for _, d := range disks {
		if d.Use == use {
			out = append(out, d)
		}
	}
	return out
}

// selector is how a message names what a file selects by.
func selector(s spec.DiskSelector) string {
	switch {
	case s.Serial != "":
		return "serial " + s.Serial
	case s.WWN != "":
		return "WWN " + s.WWN
	}
	return "by-id " + s.ByID
}

// title is a disk of the node in messages.
func (u use) title(number int) string { return u.what + " " + strconv.Itoa(number) }
