package rootfs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spore/builder/media"
	"spore/builder/netboot/ipxe"
	"spore/builder/uki"
	"spore/storage/fat"
)

// ESP lists the files of the EFI system partition; there are none for network boot.
func (i *Image) ESP() ([]fat.File, error) {
	if i.Info == nil {
		return nil, nil
	}
	esp := i.Info.ESP()
	f, err := fat.Open(io.NewSectionReader(i.files[0], esp.Offset, esp.Size), esp.Size)
	if err != nil {
		return nil, fmt.Errorf("read the ESP: %w", err)
	}
	files, err := f.Walk()
	if err != nil {
		return nil, fmt.Errorf("read the ESP: %w", err)
	}
	return files, nil
}

// Section returns the content of a section of the UKI.
func (i *Image) Section(s uki.Section) io.Reader {
	return io.NewSectionReader(i.uki, int64(s.Offset), int64(min(s.RawSize, s.VirtualSize)))
}

// Range is a part of an image with what it is for.
type Range struct {
	Name string
	Size int64
}

// Others lists what an image has besides its filesystems, their hash trees and indexes and the files of the ESP:
// partition tables and free room of a disk image, the files of a folder for network boot.
func (i *Image) Others() ([]Range, error) {
	if i.Info == nil {
		return i.netbootFiles()
	}
	files, err := i.ESP()
	if err != nil {
		return nil, err
	}
	used := i.Root.Size + i.Root.HashSize + i.Root.IndexSize + i.Cluster.Size + i.Cluster.HashSize
	for _, f := range files {
		used += f.Size
	}
	return []Range{{"free room of the partitions, FAT and partition tables", i.Info.Size - used}}, nil
}

func (i *Image) netbootFiles() ([]Range, error) {
	var out []Range
	entries, err := os.ReadDir(i.Name)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch e.Name() {
		case media.NetbootRoot, media.NetbootVerity, media.NetbootCluster, ipxe.UKI:
			continue
		}
		var size int64
		err := filepath.Walk(filepath.Join(i.Name, e.Name()), func(_ string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				size += info.Size()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, Range{e.Name(), size})
	}
	return out, nil
}

// IsUKI tells whether a file of the ESP is the UKI that the firmware starts.
func (i *Image) IsUKI(f fat.File) bool {
	return i.Info != nil && len(i.Info.UKIs) > 0 && f.Path == i.Info.UKIs[len(i.Info.UKIs)-1].Path
}
