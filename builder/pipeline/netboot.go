package pipeline

import (
	"context"
	"fmt"
	"path"
	"path/filepath"

	"spore/cluster/spec"
)

// NetbootName is the folder for network boot in the output folder.
const NetbootName = "netboot"

// ipxePackage has iPXE, which network cards load before anything else: data here, of which nothing is run, and nothing goes
// into the root.
const ipxePackage = "ipxe"

// Names of iPXE's binaries: for BIOS, and for UEFI, where it drives the card by the firmware.
const (
	LoaderBIOS = "undionly.kpxe"
	LoaderUEFI = "snponly.efi"
)

// writeNetboot writes the folder that machines boot from over the network.
func (b *build) writeNetboot(ctx context.Context) error {
	if !b.wants(spec.FormatNetboot) {
		return nil
	}
	step := b.Progress.Step("netboot")
	loaders, err := b.takeLoaders(ctx)
	if err != nil {
		return fmt.Errorf("take iPXE from its package: %w", err)
	}
	b.netboot = filepath.Join(b.Out, NetbootName)
	if err := b.media.WriteNetboot(ctx, b.netboot, loaders); err != nil {
		return err
	}
	step.Note("%s", b.netboot)
	step.Done()
	return nil
}

// takeLoaders takes iPXE's binaries from the package archive.
func (b *build) takeLoaders(ctx context.Context) (map[string][]byte, error) {
	p, err := b.mediaPackage(ipxePackage)
	if err != nil {
		return nil, err
	}
	loaders := map[string][]byte{}
	for _, name := range []string{LoaderBIOS, LoaderUEFI} {
		if loaders[name], err = b.fromPackage(ctx, p, path.Join("/usr/lib/ipxe", name)); err != nil {
			return nil, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
	}
	return loaders, nil
}
