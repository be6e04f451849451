// Package quota holds directories of a node's state to a size, by the project quotas of ext4 (Linux,
// Documentation/filesystems/quota.rst; quotactl(2)): a directory and all below it have the number of a project, and the
// file system counts the blocks and files of each number. Package ext4 has a file system count; here the numbers are
// given, and the limits set.
//
// A quota is no wall: the owner of a file may give it the number of another project (fs/ioctl.c,
// fileattr_set_prepare), and who has CAP_SYS_RESOURCE is not held to any.
package quota

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
)

// Limit is a directory that may fill so much.
type Limit struct {
	// Role is whose it is.
	Role string
	// Path is the directory.
	Path string
	// Bytes is what it and all below it may fill.
	Bytes uint64
	// Project is its number.
	Project uint32
}

// firstProject begins the numbers that are ours. Those of the kubelet are below (pkg/volume/util/fsquota: from 1 << 20
// on).
const firstProject = 1 << 30

// Of lists the directories with a quota of the roles that a node has, by their paths.
func Of(c *facts.Cluster, n *facts.Node) []Limit {
	var out []Limit
	for _, name := range n.Roles {
		own, _ := services.Of(c).Own(name)
		d, ok := own.(*role.Definition)
		if !ok {
			continue
		}
		for _, dir := range d.Directories {
			if size := dir.Bytes(); size > 0 {
				out = append(out, Limit{Role: name, Path: dir.Path, Bytes: uint64(size)})
			}
		}
	}
	slices.SortFunc(out, func(a, b Limit) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	number(out)
	return out
}

// number gives each directory a number that stays the same as long as its path does. Of two with the same one, which a
// node hardly has, the second has the next.
func number(limits []Limit) {
	taken := map[uint32]bool{}
	for i := range limits {
		sum := sha256.Sum256([]byte(limits[i].Path))
		p := firstProject | binary.BigEndian.Uint32(sum[:])%firstProject
		for taken[p] {
			p = firstProject | (p+1)%firstProject
		}
		taken[p], limits[i].Project = true, p
	}
}

// files is how many files a directory of so many bytes may have: as many as a file system of its size would have
// (mke2fs.conf(5), inode_ratio), since the table of files is shared as well.
func files(bytes uint64) uint64 { return max(leastFiles, bytes/bytesPerFile) }

const (
	bytesPerFile = 16 << 10
	leastFiles   = 1024
)

// usage is struct if_nextdqblk, which begins as struct if_dqblk does (include/uapi/linux/quota.h). Limits of blocks are
// in KiB; the current space is in bytes.
type usage struct {
	hardKiB, softKiB, space      uint64
	hardFiles, softFiles, inodes uint64
	blockTime, fileTime          uint64
	valid, id                    uint32
}

// Commands of quotactl(2), each for project quotas.
const (
	projectQuota = 2
	setQuota     = 0x800008<<8 | projectQuota
	nextQuota    = 0x800009<<8 | projectQuota
	// limits are QIF_BLIMITS and QIF_ILIMITS.
	limitsValid = 1 | 4
)

// maxProjects bounds how many numbers of a file system are looked at.
const maxProjects = 10_000

// Set sets the limits on the file system that is mounted at dir with prjquota, and takes those back of numbers of ours
// that are not among them.
func Set(dir string, limits []Limit) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	wanted := map[uint32]bool{}
	for _, l := range limits {
		wanted[l.Project] = true
		u := usage{hardKiB: l.Bytes >> 10, hardFiles: files(l.Bytes), valid: limitsValid}
		if err := control(f, setQuota, l.Project, &u); err != nil {
			return fmt.Errorf("hold %s to its quota: %w", l.Path, err)
		}
	}
	id := uint32(firstProject)
	for range maxProjects {
		var u usage
		err := control(f, nextQuota, id, &u)
		if errors.Is(err, unix.ENOENT) || err == nil && u.id < id {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for quotas of before: %w", err)
		}
		if !wanted[u.id] && u.hardKiB|u.hardFiles != 0 {
			if err := control(f, setQuota, u.id, &usage{valid: limitsValid}); err != nil {
				return fmt.Errorf("take a quota of before back: %w", err)
			}
		}
		if u.id == ^uint32(0) {
			return nil
		}
		id = u.id + 1
	}
	return nil
}

func control(f *os.File, command uint32, id uint32, u *usage) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, f.Fd(), uintptr(command), uintptr(id),
		uintptr(unsafe.Pointer(u)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
