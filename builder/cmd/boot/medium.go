package boot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inspect"
	"spore/builder/pipeline"
	"spore/builder/rehearsal"
	"spore/builder/vm"
)

// What machines start from.
const (
	mediumDisk = "disk"
	mediumUSB  = "usb"
	mediumISO  = "iso"
)

var media = []string{mediumDisk, mediumUSB, mediumISO}

// installCredential is the systemd credential that names the disk that an image installs itself on, by its serial number.
const installCredential = "spore.install"

// medium is what the machines start from.
type medium struct {
	kind string
	// image is the file, id tells its build from others.
	image, id string
}

// findMedium is the medium that the flags ask for.
func (f flags) findMedium() (medium, error) {
	m := medium{kind: f.medium}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(f.out, name))
		return err == nil
	}
	switch {
	case m.kind != "":
	case f.install && there(pipeline.ISOName):
		m.kind = mediumISO
	case f.install:
		m.kind = mediumUSB
	default:
		m.kind = mediumDisk
	}
	name, format := pipeline.DiskName, "disk"
	if m.kind == mediumISO {
		name, format = pipeline.ISOName, "iso"
	}
	if !there(name) {
		return m, exit.Usage(fmt.Errorf("there is no %s; build it with `spore build -o %s --format %s`", filepath.Join(f.out, name), f.out, format))
	}
	var err error
	if m.image, err = filepath.Abs(filepath.Join(f.out, name)); err != nil {
		return m, err
	}
	m.id, err = inspect.DiskUUID(m.image)
	return m, err
}

// disks are those of a machine, the one that it starts from first. installs is the serial number of the disk that the image
// is to be installed on; empty where it is not.
func (m medium) disks(ctx context.Context, plan rehearsal.Machine, s *rehearsal.State, install bool) (disks []vm.Disk, installs string, err error) {
	own := vm.Disk{Format: "qcow2", Serial: ownSerial(plan), BootIndex: 1}
	switch {
	case m.kind == mediumDisk:
		own.Path, err = s.BootDisk(ctx, m.image, m.id)
		disks = append(disks, own)
	case install:
		// The firmware takes the disk as soon as there is something on it.
		own.Path, err = s.EmptyDisk(ctx)
		disks, installs = append(disks, own), own.Serial
	}
	if err != nil {
		return nil, "", err
	}
	switch m.kind {
	case mediumISO:
		disks = append(disks, vm.Disk{Path: m.image, CDROM: true, BootIndex: 2})
	case mediumUSB:
		stick := vm.Disk{Format: "qcow2", Serial: "STICK", USB: true, BootIndex: 2}
		if stick.Path, err = s.Stick(ctx, m.image, m.id); err != nil {
			return nil, "", err
		}
		disks = append(disks, stick)
	}
	for _, d := range plan.Disks {
		made, err := s.Disk(ctx, d)
		if err != nil {
			return nil, "", err
		}
		disks = append(disks, made)
	}
	return disks, installs, nil
}

// ownSerial is the serial number of the machine's own disk: the node's name, in at most 20 characters, unless a disk of the
// node's file has it.
func ownSerial(plan rehearsal.Machine) string {
	name := plan.Node.Name
	for _, serial := range []string{name[:min(len(name), 20)], "BOOT", "BOOT-DISK"} {
		if !slices.ContainsFunc(plan.Disks, func(d rehearsal.Disk) bool { return d.Device.Serial == serial }) {
			return serial
		}
	}
	return "SPORE-BOOT-DISK"
}
