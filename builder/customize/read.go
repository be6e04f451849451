package customize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/squashfs"

	"spore/builder/image"
	"spore/builder/manifest"
	"spore/cluster/facts"
	"spore/services"
)

// maxPart bounds what is read of a cluster part, in bytes.
const maxPart = 1 << 30

// filesystem reads a squashfs that lies inside a file.
func filesystem(f *os.File, part *image.Filesystem) (fs.FS, error) {
	return squashfs.Read(file.New(f, true), part.Size, part.Offset, 0)
}

// readManifest reads what the root says of itself.
func (o *original) readManifest(f *os.File, part *image.Filesystem) error {
	root, err := filesystem(f, part)
	if err != nil {
		return err
	}
	data, err := fs.ReadFile(root, manifest.ImagePath[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the root has no manifest, so this is not an image of spore")
	}
	if err != nil {
		return err
	}
	o.manifest = &manifest.Manifest{}
	if err := json.Unmarshal(data, o.manifest); err != nil {
		return fmt.Errorf("%s: %w", manifest.ImagePath, err)
	}
	o.root.BuildTime = o.manifest.BuildTime
	return nil
}

// readCluster reads the configuration that the image has.
func (o *original) readCluster(f *os.File, part *image.Filesystem) error {
	fsys, err := filesystem(f, part)
	if err != nil {
		return err
	}
	o.part = map[string][]byte{}
	var total int64
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); total > maxPart {
			return fmt.Errorf("it has more than %d MiB", maxPart>>20)
		}
		o.part[name], err = fs.ReadFile(fsys, name)
		return err
	})
	if err != nil {
		return err
	}
	if err := o.decode(facts.ClusterFile, func(data []byte) error { return services.ReadCluster(data, &o.cluster) }); err != nil {
		return err
	}
	for name := range o.part {
		if path.Dir(name) != facts.NodeDir {
			continue
		}
		var n facts.Node
		if err := o.decode(name, func(data []byte) error { return json.Unmarshal(data, &n) }); err != nil {
			return err
		}
		o.nodes = append(o.nodes, n)
	}
	return nil
}

func (o *original) decode(name string, into func(data []byte) error) error {
	data, ok := o.part[name]
	if !ok {
		return fmt.Errorf("it has no %s, so this is not an image of spore", name)
	}
	if err := into(data); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(name, "/"), err)
	}
	return nil
}
