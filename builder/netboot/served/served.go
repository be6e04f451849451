// Package served says what a machine has measured into its TPM when it was started from the folder for network boot,
// and from nothing else: the programs in it, and what its UKI makes of PCR 11.
package served

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"spore/builder/media"
	"spore/builder/netboot/ipxe"
	"spore/builder/pcr"
	"spore/builder/uki"
	"spore/pki/attest"
	"spore/pki/authenticode"
)

// Want reads the folder.
func Want(dir string) (attest.Want, error) {
	w := attest.Want{Programs: map[[32]byte]string{}, UKI: ipxe.UKI, More: []string{"spore.url=", "spore.install=", "spore.answers="}}
	fail := func(err error) (attest.Want, error) {
		return attest.Want{}, fmt.Errorf("calculate the measurements of a machine that starts from %s: %w", dir, err)
	}
	image, err := os.ReadFile(filepath.Join(dir, ipxe.UKI))
	if err != nil {
		return fail(err)
	}
	if err := add(&w, ipxe.UKI, image); err != nil {
		return fail(err)
	}
	value, err := pcr.Predict(bytes.NewReader(image))
	if err != nil {
		return fail(err)
	}
	for _, phases := range append(pcr.Phases[:len(pcr.Phases):len(pcr.Phases)], pcr.StateOpen) {
		w.Measured = append(w.Measured, value.Enter(phases))
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, media.NetbootCmdline))
	if err != nil {
		return fail(err)
	}
	w.Cmdline = string(cmdline)
	if err := addKernel(&w, dir, image); err != nil {
		return fail(err)
	}
	loaders, err := filepath.Glob(filepath.Join(dir, media.NetbootLoaders, "*.efi"))
	if err != nil {
		return fail(err)
	}
	for _, name := range loaders {
		data, err := os.ReadFile(name)
		if err != nil {
			return fail(err)
		}
		if err := add(&w, filepath.Base(name), data); err != nil {
			return fail(err)
		}
	}
	return w, nil
}

func add(w *attest.Want, name string, program []byte) error {
	sum, err := authenticode.HashOf(bytes.NewReader(program), int64(len(program)))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.Programs[sum] = name
	return nil
}

// addKernel takes the kernel in, which the UKI's stub has the firmware start as a program of its own. It is a section
// in memory then, with zeros behind it.
func addKernel(w *attest.Want, dir string, image []byte) error {
	kernel, err := os.ReadFile(filepath.Join(dir, ipxe.Kernel))
	if err != nil {
		return err
	}
	if err := add(w, ipxe.Kernel, kernel); err != nil {
		return err
	}
	info, err := uki.Inspect(bytes.NewReader(image))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(info.Sections, func(s uki.Section) bool { return s.Name == ".linux" })
	if i < 0 {
		return fmt.Errorf("%s has no kernel", ipxe.UKI)
	}
	for _, size := range []int64{int64(info.Sections[i].RawSize), int64(info.Sections[i].VirtualSize)} {
		if size < int64(len(kernel)) {
			continue
		}
		sum, err := authenticode.HashInMemory(kernel, size)
		if err != nil {
			return fmt.Errorf("%s: %w", ipxe.Kernel, err)
		}
		w.Programs[sum] = ipxe.Kernel
	}
	return nil
}
