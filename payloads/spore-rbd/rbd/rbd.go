// Package rbd works with RBD images by Ceph's command rbd(8): it makes and removes them, keeps a little metadata at them, and
// maps them to block devices of the kernel. What the command prints is read as JSON; its exit status is an errno.
//
// It has no namespaces, snapshots, clones or encryption.
package rbd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"spore/payloads/spore-rbd/client"
)

// Features are those of the images that Create makes: all that the kernel knows (Documentation/ABI/testing/sysfs-bus-rbd)
// and that help. Without exclusive-lock nothing would keep two nodes from one file system; object-map makes removing cost
// what is stored and not what the size is.
const Features = "layering,exclusive-lock,object-map,fast-diff,deep-flatten"

// exclusiveLock is the feature that Map needs.
const exclusiveLock = "exclusive-lock"

// Errors by which callers tell cases apart.
var (
	ErrNotFound = errors.New("there is no such image")
	ErrExists   = errors.New("the image exists")
	// ErrInUse means that a node has the image mapped, or had it within the last half minute.
	ErrInUse = errors.New("the image is in use")
	// ErrSnapshots means that an image has snapshots, which keep it from being removed.
	ErrSnapshots = errors.New("the image has snapshots")
)

// Command is how to call rbd.
type Command client.Client

var call = client.Call{Name: "rbd", Means: means}

// means is the error of this package by the command's exit status.
func means(status syscall.Errno) error {
	switch status {
	case syscall.ENOENT:
		return ErrNotFound
	case syscall.EEXIST:
		return ErrExists
	case syscall.EBUSY, syscall.EROFS, syscall.ETIMEDOUT:
		// EROFS is the answer of a kernel that holds the lock for itself (drivers/block/rbd.c, "exclusive").
		return ErrInUse
	case syscall.ENOTEMPTY:
		return ErrSnapshots
	}
	return nil
}

// run returns what the command prints to its standard output.
func (c Command) run(ctx context.Context, args ...string) ([]byte, error) {
	return client.Client(c).Run(ctx, call, args...)
}

// runJSON reads what the command prints as JSON.
func (c Command) runJSON(ctx context.Context, into any, args ...string) error {
	out, err := c.run(ctx, append(args, "--format", "json")...)
	if err != nil {
		return err
	}
	// "image-meta list" prints nothing where there is nothing.
	if len(bytes.TrimSpace(out)) == 0 {
		return nil
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("rbd %s: read its output: %w", strings.Join(args, " "), err)
	}
	return nil
}

// Info is what is known of an image.
type Info struct {
	// Size is in bytes.
	Size     int64    `json:"size"`
	Features []string `json:"features"`
}

// Info reads size and features; ErrNotFound when there is no such image.
func (c Command) Info(ctx context.Context, i Image) (Info, error) {
	var out Info
	return out, c.runJSON(ctx, &out, "info", i.String())
}

// Create makes an empty image of a size in bytes; ErrExists when there is one.
func (c Command) Create(ctx context.Context, i Image, size int64) error {
	_, err := c.run(ctx, "create", "--size", strconv.FormatInt(size, 10)+"B", "--image-feature", Features, i.String())
	return err
}

// Remove removes an image with all that is stored in it; it goes on where an interrupted one has stopped. ErrInUse and
// ErrSnapshots say what keeps it.
func (c Command) Remove(ctx context.Context, i Image) error {
	_, err := c.run(ctx, "remove", "--no-progress", i.String())
	return err
}

// Blank tells whether nothing has ever been written to the image. It asks which objects are there and reads none.
func (c Command) Blank(ctx context.Context, i Image) (bool, error) {
	var extents []json.RawMessage
	err := c.runJSON(ctx, &extents, "diff", "--whole-object", i.String())
	return err == nil && len(extents) == 0, err
}

// Meta reads an entry of the image's metadata; empty when it is not set. ErrNotFound when there is no such image.
func (c Command) Meta(ctx context.Context, i Image, key string) (string, error) {
	out := map[string]string{}
	// "image-meta get" has the same exit status for an image and for an entry that are not there.
	err := c.runJSON(ctx, &out, "image-meta", "list", i.String())
	return out[key], err
}

// SetMeta sets an entry of the image's metadata. The image must not be mapped.
func (c Command) SetMeta(ctx context.Context, i Image, key, value string) error {
	_, err := c.run(ctx, "image-meta", "set", i.String(), key, value)
	return err
}

// Watchers lists the addresses of the clients that have the image open.
func (c Command) Watchers(ctx context.Context, i Image) ([]string, error) {
	var status struct {
		Watchers []struct {
			Address string `json:"address"`
		} `json:"watchers"`
	}
	if err := c.runJSON(ctx, &status, "status", i.String()); err != nil {
		return nil, err
	}
	var out []string
	for _, w := range status.Watchers {
		out = append(out, w.Address)
	}
	return out, nil
}

// MapOptions are the kernel's (rbd(8), "Kernel rbd (krbd) options"). exclusive takes the image's lock at once and never
// hands it over, so that a second node is refused for as long as this one lives; of an owner that is dead, Ceph takes it
// away and shuts that owner out. ms_mode is msgr2 with encryption, the only thing that our monitors and OSDs speak.
const MapOptions = "exclusive,lock_timeout=60,ms_mode=secure"

// Map maps an image to a block device of this machine, for this machine alone, and returns its path. ErrInUse when another
// machine has it.
func (c Command) Map(ctx context.Context, i Image) (string, error) {
	info, err := c.Info(ctx, i)
	if err != nil {
		return "", err
	}
	if !slices.Contains(info.Features, exclusiveLock) {
		return "", fmt.Errorf("image %s has no %s, so that nothing would keep two nodes from it; run rbd feature enable %s %s", i, exclusiveLock, i, exclusiveLock)
	}
	out, err := c.run(ctx, "device", "map", "--options", MapOptions, i.String())
	if errors.Is(err, ErrNotFound) { // The image is there: it is the kernel that lacks something, such as the module.
		return "", errors.New(err.Error())
	}
	if err != nil {
		return "", err
	}
	device := string(bytes.TrimSpace(out))
	if !strings.HasPrefix(device, "/dev/rbd") {
		return "", fmt.Errorf("rbd device map %s: it printed %.100q and no device", i, device)
	}
	return device, nil
}

// Devices lists the block devices of this machine that an image is mapped to.
func (c Command) Devices(ctx context.Context, i Image) ([]string, error) {
	var list []struct {
		Pool      string `json:"pool"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Snap      string `json:"snap"`
		Device    string `json:"device"`
	}
	if err := c.runJSON(ctx, &list, "device", "list"); err != nil {
		return nil, err
	}
	var out []string
	for _, d := range list {
		// "-" is the image itself and no snapshot.
		if d.Pool == i.Pool && d.Namespace == "" && d.Name == i.Name && d.Snap == "-" {
			out = append(out, d.Device)
		}
	}
	return out, nil
}

// Unmap takes a block device away; ErrInUse when something on this machine has it open.
func (c Command) Unmap(ctx context.Context, device string) error {
	_, err := c.run(ctx, "device", "unmap", device)
	return err
}
