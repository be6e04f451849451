package media

import (
	"context"
	"fmt"
	"time"

	"spore/builder/image"
)

// WriteISO writes the hybrid ISO whole or not at all. bios is what boots it without UEFI; files are further files of the ESP
// by their path.
func (m *Media) WriteISO(ctx context.Context, name string, bios image.BIOS, files map[string][]byte) error {
	kernel, initrd, err := m.root.readKernel()
	if err != nil {
		return err
	}
	_, err = image.WriteISO(ctx, name, image.ISOOptions{
		Options: image.Options{
			RootHash: m.root.Hash, ClusterHash: m.ClusterHash,
			Root: m.root.Squashfs, Verity: m.root.Verity, Cluster: image.Source{Path: m.ClusterFile},
			UKI: m.UKI, UKISum: m.UKISum, SystemdBoot: m.Loader, Files: files, Enroll: m.Enroll,
			Time: time.Unix(m.root.BuildTime, 0).UTC(),
		},
		BIOS: bios, Kernel: kernel, Initrd: initrd, Cmdline: m.Cmdline(),
	})
	if err != nil {
		return fmt.Errorf("write the ISO: %w", err)
	}
	return nil
}
