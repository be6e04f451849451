// Package media makes what machines boot from: of a finished root and a configuration it makes the cluster part and the
// unified kernel image (UKI), and writes both, with the root, as the media of an image.
//
// `spore build` hands it a root from the store, `spore customize` the root of an image that was built before. Both come
// this one way, so that the same configuration on the same root has the same bytes.
package media

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"spore/builder/clusterpart"
	"spore/builder/image"
	"spore/builder/progress"
	"spore/builder/uki"
	"spore/cluster"
	"spore/cluster/spec"
)

// kernelArguments are on the command line of every image, besides the two hashes and what image.yaml adds.
var kernelArguments = []string{
	"ro",
	"console=tty0", "console=ttyS0,115200",
	// The console shows notices and worse. A serial line takes seconds for the rest, which the journal has.
	"loglevel=6",
	// A machine that cannot go on starts over.
	"panic=10",
	// /var is mounted by the identity of the node, not by what a disk says of itself.
	"systemd.gpt_auto=0",
	// /etc and /var are new at each boot; nothing is to be updated or set up on account of that.
	"systemd.condition_needs_update=0", "systemd.firstboot=off",
	// The kernel's self-tests of ciphers cost seconds on slow machines and change nothing.
	"cryptomgr.notests=1",
	// Debian gives every program pages of 2 MiB, of which small heaps and stacks use a part; with this only who asks for
	// them has them.
	"transparent_hugepage=madvise",
	// networkd takes routers' advertisements by itself, where a node's network wants them. The kernel would take them as soon as
	// a card is up, which stage1 and the probe of static addresses see to before networkd has it, and their addresses stay.
	"sysctl.net.ipv6.conf.default.accept_ra=0",
	// Debian's security modules without tomoyo, which nothing configures, and without bpf, for which systemd loads a program and
	// reads the types of the whole kernel: no unit has RestrictFileSystems=.
	"lsm=landlock,lockdown,yama,apparmor,ipe",
}

// Root is a finished root filesystem with all that boots it.
type Root struct {
	// Hash is the root hash of the hash tree: 64 hexadecimal digits.
	Hash string
	// Squashfs is the filesystem, Verity its hash tree.
	Squashfs, Verity image.Source
	// Link says that these are whole files that end with the change, so that a folder may have them by another name.
	Link bool
	// Stub, Kernel, Initrd, Microcode, OSRelease and Uname are parts of the UKI (see uki.Options).
	Stub, Microcode, OSRelease []byte
	Kernel, Initrd             uki.Content
	Uname                      string
	// Loader is systemd-boot, as its package has it: unsigned.
	Loader []byte
	// BuildTime in seconds since the epoch is the date of all files.
	BuildTime int64
}

// Options say what media are made of.
type Options struct {
	Root Root
	// Config is a configuration without errors whose needs the root meets.
	Config *cluster.Config
	// Keys sign UKI and boot loader.
	Keys Keys
	// Temp is a folder for the cluster part, which Close removes.
	Temp string
	// Progress tells a person what goes on. May be nil.
	Progress *progress.Printer
}

// Media is a cluster part and a UKI that are ready to be written. Close removes what is temporary.
type Media struct {
	// ClusterHash is the root hash of the cluster part in hexadecimal, ClusterFile the file that has it, with its hash tree.
	ClusterHash, ClusterFile string
	// UKI is the unified kernel image, Loader the boot loader, as they go to an ESP.
	UKI, Loader []byte
	// UKISum is the SHA-256 of UKI.
	UKISum [sha256.Size]byte
	// Enroll is that of Keys, for whoever writes an ESP.
	Enroll *image.Enrolment

	keys   Keys
	root   Root
	config *cluster.Config
}

// Make makes cluster part and UKI.
func Make(o Options) (_ *Media, err error) {
	m := &Media{Enroll: o.Keys.Enroll, keys: o.Keys, root: o.Root, config: o.Config}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	step := o.Progress.Step("cluster part")
	size, err := m.writeClusterPart(o.Temp)
	if err != nil {
		return nil, err
	}
	step.Note("%d KiB, hash %.16s…", size>>10, m.ClusterHash)
	step.Done()

	step = o.Progress.Step("UKI")
	if m.UKI, err = o.Keys.uki(m.parts()); err != nil {
		return nil, fmt.Errorf("make the UKI: %w", err)
	}
	m.UKISum = sum(m.UKI)
	if o.Root.Loader != nil { // a folder for network boot has none
		if m.Loader, err = o.Keys.loader(o.Root.Loader); err != nil {
			return nil, err
		}
	}
	step.Note("%.1f MiB, initramfs %.1f", float64(len(m.UKI))/(1<<20), float64(o.Root.Initrd.Size())/(1<<20))
	step.Done()
	return m, nil
}

// sumPiece is how much is hashed at once, in bytes. The garbage collector waits for the end of a piece, and burns a processor
// for as long as that.
const sumPiece = 256 << 10

func sum(data []byte) (out [sha256.Size]byte) {
	h := sha256.New()
	for piece := range slices.Chunk(data, sumPiece) {
		h.Write(piece)
	}
	h.Sum(out[:0])
	return out
}

// readKernel reads the kernel and its initramfs, for what boots them without the UKI. Microcode is an uncompressed archive of its
// own before the initramfs: the kernel looks for it before it unpacks anything (Documentation/arch/x86/microcode.rst of Linux).
func (r *Root) readKernel() (kernel, initrd []byte, err error) {
	if kernel, err = uki.Read(r.Kernel); err != nil {
		return nil, nil, fmt.Errorf("read the kernel: %w", err)
	}
	if initrd, err = uki.Read(uki.Joined{uki.Bytes(r.Microcode), r.Initrd}); err != nil {
		return nil, nil, fmt.Errorf("read the initramfs: %w", err)
	}
	return kernel, initrd, nil
}

// Close removes the file of the cluster part, once the media hold its content.
func (m *Media) Close() error {
	if m.ClusterFile == "" {
		return nil
	}
	return os.Remove(m.ClusterFile)
}

// writeClusterPart writes the verified configuration to a temporary file and returns its size in bytes.
func (m *Media) writeClusterPart(dir string) (size int64, err error) {
	f, err := os.CreateTemp(dir, "cluster-*")
	if err != nil {
		return 0, err
	}
	m.ClusterFile = f.Name()
	defer func() { err = errors.Join(err, f.Close()) }()
	part, err := clusterpart.Write(f, m.config, m.root.BuildTime)
	if err != nil {
		return 0, err
	}
	m.ClusterHash = part.RootHash
	return part.Size, nil
}

// parts are those of the UKI.
func (m *Media) parts() uki.Options {
	r := m.root
	return uki.Options{
		Stub: r.Stub, Kernel: r.Kernel, Initrd: r.Initrd, Microcode: r.Microcode, OSRelease: r.OSRelease, Uname: r.Uname,
		Cmdline: m.Cmdline(),
	}
}

// Cmdline is the kernel command line.
func (m *Media) Cmdline() string {
	words := []string{"roothash=" + m.root.Hash, "spore.clusterhash=" + m.ClusterHash}
	words = append(words, kernelArguments...)
	words = append(words, m.config.Image.KernelArguments...)
	return strings.Join(append(words, spec.EndOfWords), " ")
}

// WriteDisk writes the disk image whole or not at all. files are further files of the ESP by their path.
func (m *Media) WriteDisk(ctx context.Context, name string, files map[string][]byte) error {
	_, err := image.Write(ctx, name, image.Options{
		RootHash: m.root.Hash, ClusterHash: m.ClusterHash,
		Root: m.root.Squashfs, Verity: m.root.Verity, Cluster: image.Source{Path: m.ClusterFile},
		UKI: m.UKI, UKISum: m.UKISum, SystemdBoot: m.Loader, Files: files, Enroll: m.Enroll,
		Slots: image.Slots(m.config.Image.Slots), Time: time.Unix(m.root.BuildTime, 0).UTC(),
	})
	if err != nil {
		return fmt.Errorf("write the disk image: %w", err)
	}
	return nil
}
