package osd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/datadisk"
	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/wait"
	cephnode "spore/services/ceph/node"
	"spore/storage/atomicfile"
	"spore/storage/gpt"
)

// Files in the runtime directory of an OSD: those that `render ceph-osd` wrote, and what its unit reads.
const (
	configuration = "ceph.conf"
	keyring       = "keyring"
	environment   = "osd.env"
)

// deviceBound is the longest wait for udev to give a disk to Ceph.
const deviceBound = 30 * time.Second

// PrepareDisk makes or finds the OSD on one disk and prepares its start, as the user of Ceph.
func PrepareDisk(ctx context.Context, m *node.Machine, number string) error {
	dir, credentials := os.Getenv("RUNTIME_DIRECTORY"), os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" || credentials == "" {
		return errors.New("RUNTIME_DIRECTORY or CREDENTIALS_DIRECTORY is not set: this command is for ceph-osd-disk@.service")
	}
	_, _, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil {
		return fmt.Errorf("%w, so it has no disks for services", detect.ErrUnmatched)
	}
	infos, err := datadisk.Read(m.Root, datadisk.OSD)
	if err != nil {
		return err
	}
	info, err := diskNumber(infos, number)
	if err != nil {
		return err
	}
	uuid, err := gpt.ParseGUID(info.PartUUID)
	if err != nil {
		return err
	}
	o := Options{
		Device: info.Device, UUID: uuid, User: cephnode.OSDUser(n.Name), Dir: dir, Config: filepath.Join(dir, configuration), Keyring: filepath.Join(dir, keyring),
		Exec: run, Say: m.Say, Sleep: wait.Sleep,
		Waiting: func(what string) { _, _ = daemon.SdNotify(false, "STATUS=waiting for "+what) }, // No socket: nobody asks.
	}
	for ref, into := range map[string]*string{"ceph-fsid": &o.FSID, "ceph-osd-key": &o.BootstrapKey} {
		data, err := node.Secret(ref)
		if err != nil {
			return err
		}
		*into = strings.TrimSpace(string(data))
	}
	if err := awaitDevice(ctx, o.Device, o.Waiting); err != nil {
		return err
	}
	id, err := Prepare(ctx, o)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("OSD_ID=%d\n", id)
	_, err = atomicfile.Write(filepath.Join(dir, environment), []byte(text), 0o644)
	return err
}

// awaitDevice waits until the disk can be written to: udev gives a partition to Ceph when it has looked at it, and the kernel
// makes its node anew when the table is read again.
func awaitDevice(ctx context.Context, device string, waiting func(string)) error {
	var last error
	open := func() bool {
		var f *os.File
		if f, last = os.OpenFile(device, os.O_RDWR, 0); last == nil {
			f.Close()
		}
		return last == nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := wait.Until(ctx, wait.Condition{
		For: device + " to be given to Ceph", Bound: deviceBound, Every: 100 * time.Millisecond, Met: open,
		Say: func(string) { waiting(device + " to be given to Ceph") },
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, last)
	}
	return nil
}

// diskNumber finds a disk by the number that the unit's instance is.
func diskNumber(infos []datadisk.Info, number string) (datadisk.Info, error) {
	for _, i := range infos {
		if strconv.Itoa(i.Number) != number {
			continue
		}
		if i.Problem != "" {
			return i, errors.New(i.Problem)
		}
		return i, nil
	}
	return datadisk.Info{}, fmt.Errorf("the node's file has no osd disk %q; there are %d", number, len(infos))
}

// On reads the number of the OSD on a disk, once it is known.
func On(m *node.Machine, number int) *int {
	data, err := atomicfile.ReadLimited(m.Root.At(filepath.Join(paths.OSDs, strconv.Itoa(number), environment)), 4096)
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(data), "\n")
	id, err := strconv.Atoi(strings.TrimPrefix(line, "OSD_ID="))
	if err != nil {
		return nil
	}
	return &id
}

// run runs a program with an input and returns what it prints; the last of its complaints goes into the error.
func run(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, bad bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &bad
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(bad.String())
		return nil, fmt.Errorf("%s: %w: %s", name, err, text[strings.LastIndexByte(text, '\n')+1:])
	}
	return out.Bytes(), nil
}
