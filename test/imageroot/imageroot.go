// Package imageroot runs single programs of an image on the machine of the test: the very files that the builder put
// into the root, with the libraries beside them, by the image's own dynamic linker (ld.so(8)). It needs neither root
// nor a boot.
//
// The kernel, /proc, /dev, /etc/passwd and the network are the test's machine's. What a program's unit makes of its
// surroundings is for the tests that boot the image.
package imageroot

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"spore/storage/gpt"
	"spore/test/program"
)

const (
	// rootPart is the number of the root in an image, sectorSize that of disk images in bytes.
	rootPart   = 2
	sectorSize = 512
	// linker is the dynamic linker, libraries where it looks for libraries that a program does not bring beside itself.
	linker    = "/usr/lib64/ld-linux-x86-64.so.2"
	libraries = "/usr/lib/x86_64-linux-gnu"
)

// unpacked are the parts of the root that programs need.
var unpacked = []string{"usr/sbin", "usr/bin", "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/jvm", "usr/share/kafka", "usr/share/prometheus", "etc/alternatives", "etc/java-21-openjdk"}

// Root is the unpacked root of an image.
type Root struct{ dir string }

// Make builds the image of a configuration from the source tree and unpacks it into a folder that is there.
func Make(ctx context.Context, source, configs, dir string) (*Root, error) {
	spore, err := program.Spore(source)
	if err != nil {
		return nil, err
	}
	configs, err = filepath.Abs(configs)
	if err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "out")
	cmd := exec.CommandContext(ctx, spore, "build", configs, "-o", out, "--format", "disk")
	cmd.Dir = source
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("spore build %s: %w\n%s", configs, err, said)
	}
	r := &Root{dir: filepath.Join(dir, "root")}
	if err := r.unpack(ctx, filepath.Join(out, "spore.img")); err != nil {
		return nil, fmt.Errorf("unpack the image of %s: %w", configs, err)
	}
	return r, os.RemoveAll(out)
}

func (r *Root) unpack(ctx context.Context, image string) error {
	start, err := startOf(image)
	if err != nil {
		return err
	}
	args := append([]string{"-quiet", "-no-progress", "-no-xattrs", "-offset", fmt.Sprint(start), "-dest", r.dir, image}, unpacked...)
	if said, err := exec.CommandContext(ctx, "unsquashfs", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("unsquashfs: %w (run make deps)\n%s", err, said)
	}
	return r.relink()
}

// startOf is where the root begins in an image, in bytes.
func startOf(image string) (int64, error) {
	f, err := os.Open(image)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	table, err := gpt.Read(f, info.Size(), sectorSize)
	if err != nil {
		return 0, err
	}
	for _, p := range table.Partitions {
		if p.Number == rootPart {
			return p.Start, nil
		}
	}
	return 0, fmt.Errorf("it has no partition %d", rootPart)
}

// relink has absolute links lead to where they lead in the image, and not to what the machine has there: Debian's Java
// has its settings under /etc.
func (r *Root) relink() error {
	return filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSymlink {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil || !filepath.IsAbs(target) {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Symlink(r.At(target), path)
	})
}

// At is where a path of the image lies.
func (r *Root) At(path string) string { return filepath.Join(r.dir, path) }

// Program makes a command of the same name that runs a program of the image, and returns its path. In PATH, its folder
// has what calls the program by its name call this one.
func (r *Root) Program(path string) (string, error) {
	at, err := filepath.EvalSymlinks(r.At(path))
	if err != nil {
		return "", fmt.Errorf("the image has not %s: %w", path, err)
	}
	command := filepath.Join(r.dir, "commands", filepath.Base(path))
	if err := os.MkdirAll(filepath.Dir(command), 0o755); err != nil {
		return "", err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' --library-path '%s' '%s' \"$@\"\n", r.At(linker), r.At(libraries), at)
	return command, os.WriteFile(command, []byte(script), 0o755)
}
