// Package cephfs works with subvolumes of CephFS by Ceph's command ceph(8), whose module "volumes" makes and removes them in
// the manager, and mounts them by the kernel. The command's exit status is an errno, and what it prints is read as JSON.
//
// All subvolumes are in one group. There are no snapshots, clones and encryption.
package cephfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"spore/payloads/spore-rbd/client"
)

// Group is the group of all subvolumes, which the user of Kubernetes may work in.
const Group = "kubernetes"

// Volume is a subvolume of a file system.
type Volume struct{ Filesystem, Name string }

var (
	// filesystemName is as narrow as that of ceph.yaml, subvolumeName as Ceph's (src/pybind/mgr/volumes/module.py), less names
	// that would be options.
	filesystemName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}$`)
	subvolumeName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

// String is the volume as handles have it: FILESYSTEM/NAME.
func (v Volume) String() string { return v.Filesystem + "/" + v.Name }

// NewVolume checks the names of a file system and a subvolume.
func NewVolume(filesystem, name string) (Volume, error) {
	if !filesystemName.MatchString(filesystem) {
		return Volume{}, fmt.Errorf("%.80q is no name of a file system: use up to 50 letters, digits and . _ -, no - or . first", filesystem)
	}
	if !subvolumeName.MatchString(name) {
		return Volume{}, fmt.Errorf("%.150q is no name of a volume: use up to 128 letters, digits and . _ -, no - or . first", name)
	}
	return Volume{filesystem, name}, nil
}

// ParseVolume reads FILESYSTEM/NAME.
func ParseVolume(s string) (Volume, error) {
	filesystem, name, ok := strings.Cut(s, "/")
	if !ok {
		return Volume{}, fmt.Errorf("%.200q is no volume handle: write FILESYSTEM/NAME", s)
	}
	return NewVolume(filesystem, name)
}

// Errors by which callers tell cases apart.
var (
	ErrNotFound  = errors.New("there is no such volume")
	ErrSnapshots = errors.New("the volume has snapshots")
)

// Command is how to call ceph.
type Command client.Client

// connectBound is how long the command looks for monitors, in seconds.
const connectBound = "30"

var call = client.Call{
	Name:    "ceph",
	Options: []string{"--connect-timeout", connectBound, "--format", "json"},
	// Python looks for a home, and finds none that it may read.
	Env:   []string{"HOME=/nonexistent"},
	Means: means,
}

// means is the error of this package by the command's exit status.
func means(status syscall.Errno) error {
	switch status {
	case syscall.ENOENT:
		return ErrNotFound
	case syscall.ENOTEMPTY:
		return ErrSnapshots
	}
	return nil
}

// run returns what the command prints to its standard output.
func (c Command) run(ctx context.Context, args ...string) ([]byte, error) {
	return client.Client(c).Run(ctx, call, args...)
}

// Info is what is known of a volume.
type Info struct {
	// Size is its quota in bytes.
	Size int64
	// Path is its folder in the file system.
	Path string
}

// Info reads what is known of a volume; ErrNotFound when there is none.
func (c Command) Info(ctx context.Context, v Volume) (Info, error) {
	out, err := c.run(ctx, "fs", "subvolume", "info", v.Filesystem, v.Name, Group)
	if err != nil {
		return Info{}, err
	}
	return parseInfo(out)
}

// parseInfo reads the answer to "fs subvolume info". A volume without a quota has the word "infinite" in its place.
func parseInfo(data []byte) (Info, error) {
	var raw struct {
		Quota json.RawMessage `json:"bytes_quota"`
		Path  string          `json:"path"`
		State string          `json:"state"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Info{}, fmt.Errorf("read what Ceph says of a volume: %w", err)
	}
	if raw.State != "complete" {
		return Info{}, fmt.Errorf("the volume is not whole: it is %.50q", raw.State)
	}
	out := Info{Path: raw.Path}
	if err := CheckPath(out.Path); err != nil {
		return Info{}, err
	}
	if string(raw.Quota) == `"infinite"` {
		return out, nil
	}
	var err error
	if out.Size, err = strconv.ParseInt(string(raw.Quota), 10, 64); err != nil || out.Size < 0 {
		return Info{}, fmt.Errorf("read what Ceph says of a volume: its quota is %.50q", raw.Quota)
	}
	return out, nil
}

var pathForm = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+$`)

// maxPath is less than what the kernel takes, in bytes.
const maxPath = 1024

// CheckPath refuses folders that Ceph would not make for a volume, or that lead elsewhere.
func CheckPath(p string) error {
	if len(p) > maxPath || !pathForm.MatchString(p) || path.Clean(p) != p {
		return fmt.Errorf("%.300q is no folder of a file system: use an absolute path of letters, digits and . _ -", p)
	}
	return nil
}

// Create makes an empty volume with a quota in bytes. One that is there with another quota is given this one. ErrNotFound when
// there is no group yet.
func (c Command) Create(ctx context.Context, v Volume, size int64) error {
	_, err := c.run(ctx, "fs", "subvolume", "create", v.Filesystem, v.Name, strconv.FormatInt(size, 10), Group)
	return err
}

// CreateGroup makes the group of all volumes, if it is not there.
func (c Command) CreateGroup(ctx context.Context, filesystem string) error {
	_, err := c.run(ctx, "fs", "subvolumegroup", "create", filesystem, Group)
	return err
}

// Remove removes a volume. What is in it is deleted afterwards, by the manager. ErrNotFound when there is none, ErrSnapshots
// when those keep it.
func (c Command) Remove(ctx context.Context, v Volume) error {
	_, err := c.run(ctx, "fs", "subvolume", "rm", v.Filesystem, v.Name, Group)
	return err
}
