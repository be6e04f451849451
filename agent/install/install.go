// Package install puts the system that a machine was started from, by a stick, a disc or the network, on a disk of the
// machine. It writes with package flash, so that a cut leaves no disk that boots half a system, and state that is on the disk
// is kept.
//
// The disk gets an ESP of its own, with a PARTUUID of its own: with the medium still in the machine, firmware and stage1 can
// tell one from the other.
package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"spore/cluster/spec"
	"spore/storage/disk"
	"spore/storage/espfiles"
	"spore/storage/fat"
	"spore/storage/flash"
	"spore/storage/gpt"
)

// Options is what Run works with.
type Options struct {
	// Selector names the disk.
	Selector spec.DiskSelector
	// Host is where disks are looked for.
	Host flash.Host
	// BootDisk is the kernel's name of the disk that the machine was started from; empty when there is none.
	BootDisk string
	Source   Source
	Choice   flash.Choice
	// BundleFrom is where the bundle of Choice comes from (package delivery); empty where it has none.
	BundleFrom string
	// BundleNote says why that of NoCloud is not taken along; empty where it is, or there is none.
	BundleNote string
	// EraseState gives up the state on the disk.
	EraseState bool
	// Own, where it is set, is the PARTUUID of the only state partition that the disk may have: with any other one, and
	// with a partition table that is damaged, it is refused.
	Own gpt.GUID
	// Given are the disks that the node's file gives to services: none of them is installed on.
	Given []spec.Disk
	// Open opens the disk for writing; usually that of the target.
	Open func(flash.Target) (Device, error)
	// Confirm, when not nil, is told what will be written to; its error ends it.
	Confirm  func(t flash.Target, content string) error
	Progress func(flash.Progress)
}

// Device is an open disk.
type Device interface {
	flash.Device
	Close() error
}

// ErrThere is in the error when the disk has this very system already, and no answer file asks for more: there is nothing
// to do but to start from it.
var ErrThere = errors.New("the disk has this system already")

// ErrDone is in the error when this very answer file of this very medium was carried out on the disk already.
var ErrDone = errors.New("the disk was installed by this answer file of this medium already")

// ErrBooted is in the error when the disk is the one that the machine was started from.
var ErrBooted = errors.New("the machine was started from this disk")

// Result says what was done.
type Result struct {
	Target flash.Target
	Report flash.Report
	// ESP is the partition to start from.
	ESP gpt.Partition
	// SectorSize is that of the disk.
	SectorSize int
}

// Find returns the disk that is named, if nothing speaks against it.
func Find(o Options) (flash.Target, error) {
	targets, err := o.Host.Disks()
	if err != nil {
		return flash.Target{}, err
	}
	var disks []disk.Disk
	for _, t := range targets {
		disks = append(disks, t.Disk)
		if o.BootDisk != "" && t.Name == o.BootDisk {
			// Whatever else has that name: a node that runs from its disk is not held up by one that was plugged in.
			if _, err := disk.Select([]disk.Disk{t.Disk}, o.Selector); err == nil {
				return t, fmt.Errorf("%s: %w", t.Where(), ErrBooted)
			}
		}
	}
	d, err := disk.Select(disks, o.Selector)
	if err != nil {
		return flash.Target{}, err
	}
	t := targets[slices.IndexFunc(targets, func(t flash.Target) bool { return t.Name == d.Name })]
	t.Named = true
	return t, flash.Refuse(t)
}

// Run installs. Without again, a disk that has the system already is left as it is, with ErrThere.
func Run(ctx context.Context, o Options, again bool) (Result, error) {
	t, err := Find(o)
	if err != nil {
		return Result{Target: t}, err
	}
	dev, err := o.Open(t)
	if err != nil {
		return Result{Target: t}, err
	}
	defer dev.Close()
	r := Result{Target: t, SectorSize: dev.SectorSize()}
	layout, err := o.Source.layout(t.Serial(), o.Choice, dev.SectorSize())
	if err != nil {
		return r, fmt.Errorf("what the machine was started from: %w", err)
	}
	r.ESP = layout.Table.Partitions[0]
	// The partitions of one system have the same GUIDs by every answer file: the mark tells which of them was carried out.
	ordered := len(o.Choice.Installed) > 0
	done := ordered && bytes.Equal(mark(dev), o.Choice.Installed)
	if !again && (done || !ordered) && flash.Holds(dev, layout) {
		return r, fmt.Errorf("%s: %w", t.Where(), ErrThere)
	}
	if err := o.refuse(t, dev); err != nil {
		return r, err
	}
	if !again && done {
		return r, fmt.Errorf("%s: %w", t.Where(), ErrDone)
	}
	options := flash.Options{Layout: layout, EraseState: o.EraseState, Progress: o.Progress}
	if _, err := flash.Check(dev, options); err != nil {
		return r, fmt.Errorf("%s is refused: %w; nothing was written", t.Where(), err)
	}
	if o.Confirm != nil {
		if err := o.Confirm(t, flash.Content(dev, dev.Size(), dev.SectorSize())); err != nil {
			return r, err
		}
	}
	if r.Report, err = flash.Write(ctx, dev, options); err != nil {
		return r, fmt.Errorf("%s: %w", t.Where(), err)
	}
	return r, nil
}

// refuse says what speaks against a disk that an answer file names.
func (o Options) refuse(t flash.Target, dev Device) error {
	if use := givenTo(o.Given, t.Disk); use != "" {
		return fmt.Errorf("%s is refused: the node's file gives it to %s; nothing was written", t.Where(), use)
	}
	if o.Own == (gpt.GUID{}) {
		return nil
	}
	table, err := gpt.Read(dev, dev.Size(), dev.SectorSize())
	if err != nil && !errors.Is(err, gpt.ErrNone) {
		return fmt.Errorf("%s is refused: its partition table is damaged (%w), so it is not known whose state it has; nothing was written",
			t.Where(), err)
	}
	for _, p := range table.Partitions {
		if p.Type == typeState && p.GUID != o.Own {
			return fmt.Errorf("%s is refused: it has state of another cluster or node (partition %d has the PARTUUID %s, and that of this node is %s); "+
				"nothing was written. A person gives it up: spore install --erase-state",
				t.Where(), p.Number, p.GUID, o.Own)
		}
	}
	return nil
}

// maxMark bounds the mark of an answer file on an ESP, in bytes.
const maxMark = 256

// mark is what the ESP of a disk says of the answer file by which it came about; nothing where it says nothing. What
// cannot be read is none: then the disk is installed.
func mark(dev Device) []byte {
	table, err := gpt.Read(dev, dev.Size(), dev.SectorSize())
	if err != nil {
		return nil
	}
	for _, p := range table.Partitions {
		if p.Type != gpt.ESP {
			continue
		}
		fsys, err := fat.Open(io.NewSectionReader(dev, p.Start, p.Size), p.Size)
		if err != nil {
			return nil
		}
		files, err := fsys.Walk()
		if err != nil {
			return nil
		}
		for _, f := range files {
			if strings.EqualFold(f.Path, espfiles.Installed) && f.Size <= maxMark {
				data, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size))
				if err != nil {
					return nil
				}
				return data
			}
		}
	}
	return nil
}

// ParseSelector reads how a credential or the command line names a disk: a serial number, wwn:WWN, or id:NAME of
// /dev/disk/by-id.
func ParseSelector(s string) (spec.DiskSelector, error) {
	s = strings.TrimSpace(s)
	kind, value, ok := strings.Cut(s, ":")
	switch {
	case s == "":
		return spec.DiskSelector{}, errors.New("no disk is named: give its serial number, wwn:WWN, or id:NAME of /dev/disk/by-id")
	case ok && kind == "wwn" && value != "":
		return spec.DiskSelector{WWN: value}, nil
	case ok && kind == "id" && value != "":
		return spec.DiskSelector{ByID: value}, nil
	case strings.HasPrefix(s, "/dev/disk/by-id/"):
		return spec.DiskSelector{ByID: path.Base(s)}, nil
	case strings.HasPrefix(s, "/dev/"):
		return spec.DiskSelector{}, fmt.Errorf("%s is a name that changes from boot to boot: name the disk by its serial number, wwn:WWN, or id:NAME of /dev/disk/by-id", s)
	}
	return spec.DiskSelector{Serial: s}, nil
}

// derived is a GUID of version 8 (RFC 9562, section 5.8) from the SHA-256 of the joined parts.
func derived(parts ...string) gpt.GUID {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	g := gpt.GUID(sum[:16])
	g[6] = g[6]&0x0f | 0x80
	g[8] = g[8]&0x3f | 0x80
	return g
}
