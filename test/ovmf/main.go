// Program ovmf brings the firmware of Debian 13 to where `builder/vm` looks for it first. Emulated, that of Debian 12
// takes twice the processor time until it starts the boot loader.
//
//	go run ./test/ovmf
//
// Where it cannot, machines start with the firmware of the host, and it says so.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"time"

	"spore/builder/apt"
	"spore/builder/cmd/cachefolder"
	"spore/builder/deb"
	"spore/builder/vm"
)

const (
	suite = "trixie"
	// from is where the package has its files.
	from = "/usr/share/OVMF"
	// limit bounds all of it: without a network the tests are not to wait.
	limit = 2 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "ovmf: %v; machines start with the firmware of this host\n", err)
	}
}

func work(ctx context.Context, out io.Writer) error {
	folder, err := vm.OVMFFolder()
	if err != nil {
		return err
	}
	if vm.HasOVMF(folder) {
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
	_, single, err := a.Choose(nil, []string{"ovmf"})
	if err != nil {
		return err
	}
	if err := a.Fetch(ctx, single); err != nil {
		return err
	}
	f, err := a.Open(single[0])
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unpack(f, folder); err != nil {
		return fmt.Errorf("unpack %s: %w", single[0].String(), err)
	}
	fmt.Fprintf(out, "the firmware of %s is in %s\n", single[0].String(), folder)
	return nil
}

// unpack writes the files that machines use, all or none.
func unpack(r io.Reader, folder string) error {
	d, err := deb.NewReader(r, deb.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(folder), filepath.Base(folder)+".")
	if err != nil {
		return err
	}
	defer os.RemoveAll(part)
	for {
		h, err := d.Next()
		if errors.Is(err, io.EOF) { // A package is compared with its checksums until here.
			break
		}
		if err != nil {
			return err
		}
		if path.Dir(h.Path) != from || !slices.Contains(vm.OVMFFiles, path.Base(h.Path)) {
			continue
		}
		data, err := io.ReadAll(d)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(part, path.Base(h.Path)), data, 0o644); err != nil {
			return err
		}
	}
	if !vm.HasOVMF(part) {
		return fmt.Errorf("it does not have all of %v in %s", vm.OVMFFiles, from)
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return err
	}
	if err := os.Rename(part, folder); err != nil && !vm.HasOVMF(folder) { // Another run may have been first.
		return err
	}
	return nil
}
