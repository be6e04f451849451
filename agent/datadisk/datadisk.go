// Package datadisk gives the services of a node the disks that its file names: for Kafka, for stores of metrics and of
// logs, for roles of the configuration's own a file system each, for Ceph a partition each that BlueStore is made on,
// encrypted where asked.
//
// A disk is taken when it was proved empty or carries our own partition, which is known by a PARTUUID made of the
// cluster id and what the disk is named by. Anything else is refused with what is on it, and left as it is. One disk
// that is missing or refused keeps back none of the others.
package datadisk

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"spore/agent/paths"
	"spore/cluster/role"
	"spore/cluster/spec"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/services/storedisk"
	"spore/storage/atomicfile"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// Uses of disks, as node files write them.
const (
	Kafka   = "kafka"
	OSD     = "osd"
	Metrics = metrics.Use
	Logs    = logs.Use
)

// Partition types. That of file systems is that of generic data, which nothing mounts by itself (Discoverable
// Partitions Specification); those of OSDs are Ceph's own, by which tools know them (ceph-volume, util/constants.py).
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
	// bare is a partition without a file system.
	bare bool
	// unit is the service that prepares the disks.
	unit string
}

var uses = map[string]use{
	Kafka: {Kafka, "Kafka disk", "spore-kafka", 256 << 20, false, "kafka-disks.service"},
	// Less than that leaves an OSD no room beside its own tables.
	OSD: {OSD, "Ceph OSD", "spore-osd", 1 << 30, true, "ceph-disks.service"},
	// Stores take nothing more where 512 MiB are left, and put files together in what is free.
	Metrics: {Metrics, "metrics disk", "spore-metrics", leastStore, false, storedisk.Unit(Metrics)},
	Logs:    {Logs, "logs disk", "spore-logs", 2 * leastStore, false, storedisk.Unit(Logs)},
}

// leastStore is the partition of a disk of 4 GiB. One of logs has a queue of 2 GiB, too.
const leastStore = 4<<30 - 4<<20

// ownLabel begins the labels of partitions of roles that configurations have of their own: by it IsLabel knows also
// those of clusters whose roles are not known.
const ownLabel = "spore-role-"

// State is the use of the disk with /var, which package state has.
const State = "state"

// useOf is what is particular to a use: one of ours, or the name of a role of the configuration's own, whose disks have
// file systems as Kafka's have.
func useOf(name string) use {
	if u, known := uses[name]; known {
		return u
	}
	const label = 36 // UTF-16 units that the name of a GPT partition has (UEFI 2.10, table 5.6)
	text := ownLabel + name
	unit := (&role.Definition{Name: name}).DisksName() + ".service"
	return use{name, name + " disk", text[:min(len(text), label)], 256 << 20, false, unit}
}

// kind is the type of the partition.
func (u use) kind(encrypt bool) gpt.GUID {
	switch {
	case !u.bare:
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
func Unit(use string) string { return useOf(use).unit }

// Uses are those whose disks were prepared, sorted.
func Uses(root paths.Root) []string {
	entries, err := os.ReadDir(root.At(paths.Disks))
	if err != nil {
		return nil // None was yet, or the node has no such role.
	}
	var out []string
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ".json"); is && e.Type().IsRegular() {
			out = append(out, name)
		}
	}
	return out
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

// PartUUID is the PARTUUID of our partition on a disk that has the name: an RFC 9562 version 8 UUID made of the first
// 16 bytes of HMAC-SHA256 of "spore USE disk NAME" under the cluster id, both in lower case. The node is not in it: an
// OSD goes with its disk.
func PartUUID(clusterID, use, name string) gpt.GUID {
	mac := hmac.New(sha256.New, []byte(strings.ToLower(clusterID)))
	mac.Write([]byte("spore " + use + " disk " + strings.ToLower(strings.TrimSpace(name))))
	var g gpt.GUID
	copy(g[:], mac.Sum(nil))
	g[6] = g[6]&0x0f | 0x80
	g[8] = g[8]&0x3f | 0x80
	return g
}

// PartUUIDs are those that our partition on the disk may have, the first for a new one. A disk has several names, so
// that its file may come to select it by another one.
func PartUUIDs(clusterID, use string, d disk.Disk) []gpt.GUID {
	var out []gpt.GUID
	for _, names := range [][]string{d.Serials, d.WWNs, d.ByID} {
		for _, n := range names {
			out = append(out, PartUUID(clusterID, use, n))
		}
	}
	return out
}

// IsLabel tells whether a label of a partition table is that of a partition that was made for a service.
func IsLabel(label string) bool {
	for _, u := range uses {
		if label == u.label {
			return true
		}
	}
	return strings.HasPrefix(label, ownLabel)
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

// Title is a disk of a use in messages: the disk of that number on the node.
func Title(use string, number int) string { return useOf(use).title(number) }

// title is a disk of the node in messages.
func (u use) title(number int) string { return u.what + " " + strconv.Itoa(number) }
