// Program emulator brings QEMU and the firmware of Debian 13 to where `builder/vm` looks for them first. With those of
// Debian 12 an emulated machine takes a quarter more processor time.
//
//	go run ./test/emulator
//
// Where it cannot, machines start with what the host has, and it says so. Where the host's QEMU is as new, it does nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"spore/builder/apt"
	"spore/builder/cmd/cachefolder"
	"spore/builder/deb"
	"spore/builder/tree"
	"spore/builder/vm"
)

const (
	suite = "trixie"
	// limit bounds all of it: without a network the tests are not to wait.
	limit = 5 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "emulator: %v; machines start with QEMU and the firmware of this host\n", err)
	}
}

func work(ctx context.Context, out io.Writer) error {
	folder, err := vm.QEMUFolder()
	if err != nil {
		return err
	}
	if vm.HasQEMU(folder) || vm.HostHasQEMU(ctx) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := cachefolder.Open("")
	if err != nil {
		return err
	}
	defer s.Close()
	a, err := apt.New(apt.Options{
		Store: s, Root: os.DirFS("/"), Suite: suite, Now: time.Now, MaxIndexAge: 24 * time.Hour, Retries: -1,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment},
	})
	if err != nil {
		return err
	}
	if err := a.Update(ctx); err != nil {
		return fmt.Errorf("read the indexes of %s: %w", suite, err)
	}
	packages, err := a.Resolve([]string{"qemu-system-x86", "ovmf"})
	if err != nil {
		return err
	}
	if err := a.Fetch(ctx, packages); err != nil {
		return err
	}
	return whole(folder, func(part string) error {
		for _, p := range packages {
			f, err := a.Open(p)
			if err != nil {
				return err
			}
			err = unpack(f, part)
			f.Close()
			if err != nil {
				return fmt.Errorf("unpack %s: %w", p.String(), err)
			}
		}
		version, err := starts(ctx, part)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s, with its firmware, is in %s\n", version, folder)
		return nil
	})
}

// whole has the folder filled under another name: all of it is there, or nothing.
func whole(folder string, fill func(part string) error) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(folder), filepath.Base(folder)+".")
	if err != nil {
		return err
	}
	defer os.RemoveAll(part)
	if err := fill(part); err != nil {
		return err
	}
	if !vm.HasQEMU(part) {
		return errors.New("the packages do not have all files that machines use")
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return err
	}
	if err := os.Rename(part, folder); err != nil && !vm.HasQEMU(folder) { // Another run may have been first.
		return err
	}
	return nil
}

// unpack writes the files of a package that machines use.
func unpack(r io.Reader, folder string) error {
	d, err := deb.NewReader(r, deb.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		h, err := d.Next()
		if errors.Is(err, io.EOF) { // A package is compared with its checksums until here.
			return nil
		}
		if err != nil {
			return err
		}
		if !vm.BelongsToQEMU(h.Path) {
			continue
		}
		if err := write(d, h, filepath.Join(folder, h.Path)); err != nil {
			return err
		}
	}
}

// write makes the file or the symbolic link of an entry. Links of libraries name a file beside them; a link to elsewhere
// would leave the folder.
func write(d io.Reader, h *deb.Header, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch {
	case h.Link != "":
		return fmt.Errorf("%s is a hard link, which no file that machines use should be", h.Path)
	case h.Inode.Type == tree.Symlink && filepath.Base(h.Inode.Target) == h.Inode.Target:
		return os.Symlink(h.Inode.Target, name)
	case h.Inode.Type != tree.Regular:
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(h.Inode.Mode&0o755))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, d)
	return errors.Join(err, f.Close())
}

// starts runs the program of a folder, whose libraries may be missing, and returns what it says of itself.
func starts(ctx context.Context, folder string) (version string, err error) {
	words := vm.QEMUIn(folder)
	text, err := exec.CommandContext(ctx, words[0], append(words[1:], "--version")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s does not start: %w: %s", words[0], err, text)
	}
	version, _, _ = strings.Cut(string(text), "\n")
	return version, nil
}
