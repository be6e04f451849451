// Package reference has Debian's own tools make a root of packages: mmdebstrap unpacks them and runs their maintainer
// scripts in a chroot. What comes out is what our builder's tree is compared with.
//
// It follows mmdebstrap(1), the tar format of POSIX.1-2001 that mmdebstrap writes, and the files of dpkg's database
// (deb-md5sums(5) is not read). It does not keep the data of files, but their hashes.
package reference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Options say what mmdebstrap makes.
type Options struct {
	// Suite is the code name of the release.
	Suite string
	// Packages are installed beside the essential ones, with what they depend on, and without what they recommend.
	Packages []string
	// Mirror is the base of the archive, as Mirror finds it.
	Mirror string
	// KeepDebs leaves the packages' files in the tree's var/cache/apt/archives.
	KeepDebs bool
	// Log is the file that gets dpkg's log, which says when each package was configured; empty for none.
	Log string
}

// Make runs mmdebstrap and writes the root as a tar archive.
func Make(ctx context.Context, w io.Writer, o Options) error {
	for _, tool := range []string{"mmdebstrap", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: run make deps", err)
		}
	}
	dir, err := os.MkdirTemp("", "spore-reference")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, []byte(sources(o.Suite, o.Mirror)), 0o644); err != nil {
		return err
	}
	args := []string{"--mode=auto", "--format=tar", "--variant=essential", "--include=" + strings.Join(o.Packages, ","),
		`--aptopt=APT::Install-Recommends "false"`}
	if o.KeepDebs {
		args = append(args, "--skip=essential/unlink", "--skip=cleanup/apt", `--aptopt=APT::Keep-Downloaded-Packages "true"`)
	}
	if o.Log != "" {
		args = append(args, "--customize-hook=download /var/log/dpkg.log "+o.Log)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, o.Suite, "-", list)...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &text
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s", err, lastLines(text.String(), 40))
	}
	return nil
}

// sources are the suites that builder/apt takes packages from, too.
func sources(suite, mirror string) string {
	return fmt.Sprintf("deb %[2]s %[1]s main\ndeb %[2]s %[1]s-updates main\ndeb %[2]s-security %[1]s-security main\n",
		suite, mirror)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Mirror is the machine's own mirror of Debian, from the apt sources below root.
func Mirror(root fs.FS) (string, error) {
	var files []string
	for _, pattern := range []string{"etc/apt/sources.list.d/*.sources", "etc/apt/sources.list*",
		"etc/apt/sources.list.d/*.list"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			return "", err
		}
		files = append(files, found...)
	}
	for _, f := range files {
		data, err := fs.ReadFile(root, f)
		if err != nil {
			continue // a folder, or not for us to read
		}
		for _, word := range strings.Fields(string(data)) {
			uri := strings.TrimSuffix(word, "/")
			if strings.HasPrefix(uri, "http") && strings.HasSuffix(uri, "/debian") {
				return uri, nil
			}
		}
	}
	return "", errors.New("the machine's apt sources name no Debian mirror: no URI in /etc/apt ends in /debian")
}
