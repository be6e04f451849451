// Package osd makes Ceph's object storage daemons on the data disks of a node, and prepares those that are there for
// their start. All that an OSD is lies on its disk: number and key come from the label that BlueStore keeps there, so
// that the disk can go to another node of the cluster.
//
// A new OSD is made in two steps, of which each can be cut off and done again: the cluster gives the OSD's UUID, which
// is the PARTUUID of its partition, a number, and gives the same again when asked again with the same key; BlueStore
// writes "ready" into its label when all else is there, and what has no such label was never used.
package osd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"spore/services/ceph/cephx"
	"spore/storage/atomicfile"
	"spore/storage/blank"
	"spore/storage/gpt"
)

// Programs of Ceph.
const (
	cephProgram = "/usr/bin/ceph"
	osdProgram  = "/usr/bin/ceph-osd"
)

// Pauses between two attempts to reach the monitors.
const (
	firstPause   = time.Second
	longestPause = 15 * time.Second
)

// Options is what Prepare works with.
type Options struct {
	// Device is the partition, or what is decrypted of it, and UUID its PARTUUID.
	Device string
	UUID   gpt.GUID
	// FSID is the cluster's.
	FSID string
	// User is who asks for numbers, client.bootstrap-osd.NODE, and BootstrapKey its key, as Ceph writes keys.
	User, BootstrapKey string
	// Dir is the OSD's runtime directory; it holds Config and Keyring, that of User.
	Dir, Config, Keyring string
	// Exec runs a program with an input and returns what it prints.
	Exec func(ctx context.Context, input []byte, name string, args ...string) ([]byte, error)
	// Say reports progress, Waiting what is waited for.
	Say, Waiting func(string)
	// Sleep waits.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Data is the directory below the runtime directory that ceph-osd calls its data.
const Data = "data"

// Prepare makes the OSD of a disk where there is none yet, writes the data directory that ceph-osd starts from, and
// returns its number.
func Prepare(ctx context.Context, o Options) (id int, err error) {
	l, done, err := o.look()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", o.Device, err)
	}
	if !done {
		if err := o.make(ctx); err != nil {
			return 0, fmt.Errorf("make an OSD on %s: %w", o.Device, err)
		}
		if l, done, err = o.look(); err == nil && !done {
			err = errors.New("ceph-osd --mkfs said that it was done, and the label does not")
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", o.Device, err)
		}
	}
	return o.prime(l)
}

// look reads the label. Not done means: it is ours to make, since it was never begun, or begun by us and never used.
func (o Options) look() (l label, done bool, err error) {
	f, err := os.Open(o.Device)
	if err != nil {
		return l, false, err
	}
	defer f.Close()
	l, err = readLabel(f)
	if errors.Is(err, errNoLabel) {
		return l, false, empty(f)
	}
	switch {
	case err != nil:
		return l, false, fmt.Errorf("%w; nothing was changed", err)
	case l.UUID != o.UUID:
		return l, false, fmt.Errorf("it holds the OSD %s, and its partition is %s: it was copied from another disk; nothing was changed", l.UUID, o.UUID)
	case l.Meta["ceph_fsid"] != "" && l.Meta["ceph_fsid"] != o.FSID:
		return l, false, fmt.Errorf("it holds an OSD of the Ceph cluster %.64q, and this is %q; nothing was changed", l.Meta["ceph_fsid"], o.FSID)
	case l.Meta["ready"] != "ready":
		o.Say("making the OSD on " + o.Device + " again, which was cut off")
		return l, false, nil
	}
	return l, true, nil
}

// empty refuses a partition that holds anything where there should be a label: it was cleared when it was made.
func empty(f *os.File) error {
	b := make([]byte, 1<<20)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return fmt.Errorf("read its beginning: %w", err)
	}
	if bytes.Count(b, []byte{0}) == len(b) {
		return nil
	}
	what := blank.Signature(f)
	if what == "" {
		what = "it holds something unknown"
	}
	return fmt.Errorf("%s, and no OSD; nothing was changed", what)
}

// make asks the cluster for a number and makes the OSD.
func (o Options) make(ctx context.Context) error {
	key, err := Key(o.BootstrapKey, o.UUID)
	if err != nil {
		return err
	}
	id, err := o.number(ctx, key)
	if err != nil {
		return err
	}
	o.Say(fmt.Sprintf("making osd.%d on %s", id, o.Device))
	if err := o.clear(); err != nil {
		return err
	}
	o.Waiting(fmt.Sprintf("BlueStore to be made for osd.%d", id))
	dir := filepath.Join(o.Dir, "mkfs")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	keyFile := filepath.Join(o.Dir, "mkfs.key")
	if err := os.WriteFile(keyFile, []byte(key), 0o600); err != nil {
		return err
	}
	if err := os.Symlink(o.Device, filepath.Join(dir, "block")); err != nil {
		return err
	}
	// -f, since it would else work on in a child when it is killed.
	_, err = o.Exec(ctx, nil, osdProgram, "-f", "--conf", o.Config, "--id", strconv.Itoa(id), "--mkfs", "--no-mon-config",
		"--osd-uuid", o.UUID.String(), "--osd-data", dir, "--keyfile", keyFile)
	return errors.Join(err, os.RemoveAll(dir), os.Remove(keyFile))
}

// clear takes away what an attempt has left that was cut off: mkfs does not go on with all that it leaves, such as a
// store that is there and a data directory that is not.
func (o Options) clear() error {
	f, err := os.OpenFile(o.Device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return blank.Write(f, make([]byte, 1<<20), 0)
}

// number asks the monitors for the OSD's number until they give one. The same UUID and key give the same number.
func (o Options) number(ctx context.Context, key string) (int, error) {
	secrets, err := json.Marshal(map[string]string{"cephx_secret": key})
	if err != nil {
		return 0, fmt.Errorf("internal error: %w", err)
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		o.Waiting("the monitors to give the OSD " + o.UUID.String() + " a number")
		out, err := o.Exec(ctx, secrets, cephProgram, "--conf", o.Config, "--name", o.User, "--keyring", o.Keyring,
			"--connect-timeout", "30", "-i", "-", "osd", "new", o.UUID.String())
		if err == nil {
			id, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 31)
			if err != nil {
				return 0, fmt.Errorf("the monitors gave the number %.64q", out)
			}
			return int(id), nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		o.Say(fmt.Sprintf("asking the monitors for a number of the OSD %s: %v", o.UUID, err))
		if err := o.Sleep(ctx, pause); err != nil {
			return 0, err
		}
	}
}

// Key is the key of an OSD. It is made of the key of the node's own user and of the OSD's UUID, so that a number that
// was given right before a power cut can be asked for again, and no other node can make it.
func Key(bootstrapKey string, uuid gpt.GUID) (string, error) {
	key, err := cephx.Derive(bootstrapKey, "spore osd "+uuid.String())
	if err != nil {
		return "", fmt.Errorf("the key in the bundle by which this node makes OSDs: %w", err)
	}
	return key, nil
}

// prime writes the data directory from the label, as ceph-bluestore-tool's prime-osd-dir does.
func (o Options) prime(l label) (int, error) {
	id, err := l.number()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", o.Device, err)
	}
	key := l.Meta["osd_key"]
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) == 0 {
		return 0, fmt.Errorf("%s: its label holds no key", o.Device)
	}
	dir := filepath.Join(o.Dir, Data)
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	for name, text := range map[string]string{
		"type": "bluestore", "fsid": l.UUID.String(), "ceph_fsid": o.FSID, "whoami": strconv.Itoa(id), "magic": l.Meta["magic"], "ready": "ready",
		"keyring": fmt.Sprintf("[osd.%d]\nkey = %s", id, key),
	} {
		if _, err := atomicfile.Write(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			return 0, err
		}
	}
	return id, os.Symlink(o.Device, filepath.Join(dir, "block"))
}
