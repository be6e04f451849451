package boot

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inspect"
	"spore/builder/media"
	"spore/builder/pipeline"
	"spore/builder/rehearsal"
	"spore/builder/vm"
	"spore/cluster/spec"
)

// What machines start from.
const (
	mediumDisk = "disk"
	mediumUSB  = "usb"
	mediumISO  = "iso"
	mediumNet  = "net"
)

var kinds = []string{mediumDisk, mediumUSB, mediumISO, mediumNet}

// installCredential is the systemd credential that names the disk that an image installs itself on, by its serial number.
const installCredential = "spore.install"

// medium is what the machines start from.
type medium struct {
	kind string
	// image is the file, id tells its build from others.
	image, id string
	// folder holds what machines start from over the network, port is where this host serves it.
	folder string
	port   int
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
	name, format := pipeline.DiskName, spec.FormatDisk
	switch {
	case m.kind == mediumISO, m.kind == mediumNet && !there(name):
		name, format = pipeline.ISOName, spec.FormatISO
	}
	if m.kind == mediumNet && !there(filepath.Join(pipeline.NetbootName, pipeline.UKIName)) {
		name, format = pipeline.NetbootName, spec.FormatDisk+","+spec.FormatNetboot
		return m, missing(f.out, name, format)
	}
	if !there(name) {
		return m, missing(f.out, name, format)
	}
	var err error
	if m.image, err = filepath.Abs(filepath.Join(f.out, name)); err != nil {
		return m, err
	}
	if m.folder, err = filepath.Abs(filepath.Join(f.out, pipeline.NetbootName)); err != nil {
		return m, err
	}
	m.id, err = inspect.DiskUUID(m.image)
	return m, err
}

// serve serves what machines start from over the network until the context ends, to this host and the machines on it.
func (m *medium) serve(ctx context.Context) error {
	if m.kind != mediumNet {
		return nil
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve %s: %w", m.folder, err)
	}
	m.port = l.Addr().(*net.TCPAddr).Port
	server := &http.Server{Handler: http.FileServer(http.Dir(m.folder)), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() { _ = server.Serve(l) }()
	return nil
}

// memory is what a machine needs besides, in MiB: what it downloads stays in memory.
func (m medium) memory() int {
	if m.kind != mediumNet {
		return 0
	}
	const room = 128
	sum := int64(0)
	for _, name := range []string{media.NetbootRoot, media.NetbootVerity, media.NetbootCluster, pipeline.UKIName} {
		if info, err := os.Stat(filepath.Join(m.folder, name)); err == nil {
			sum += info.Size()
		}
	}
	return room + int(sum>>20)
}

// plug makes a machine start from the network where that is the medium: the firmware takes the kernel by TFTP, and words of
// its command line say where the rest is. The gateway's address is that of this host.
func (m medium) plug(nics []vm.NIC) (plugged []vm.NIC, words []string) {
	if m.kind != mediumNet {
		return nics, nil
	}
	plugged = slices.Clone(nics)
	for i := range plugged {
		if plugged[i].MAC != "" {
			continue
		}
		plugged[i].TFTP, plugged[i].Bootfile = m.folder, pipeline.UKIName
		words = append(words, fmt.Sprintf("spore.url=http://%s:%d/%s", plugged[i].Gateway, m.port, pipeline.UKIName))
	}
	plugged[0].BootIndex = 2
	return plugged, words
}

func missing(out, name, format string) error {
	return exit.Usage(fmt.Errorf("there is no %s; build it with `spore build -o %s --format %s`", filepath.Join(out, name), out, format))
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
