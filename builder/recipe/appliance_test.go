package recipe

import (
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	"spore/services"
)

func TestVarBecomesLinesOfTmpfiles(t *testing.T) {
	r := compose(t, Options{},
		withScript(pkg("mosquitto", "", dirEntry("/var/lib/mosquitto", 0o755), fileEntry("/var/lib/mosquitto/a b", "seed", 0o600), linkEntry("/var/spool/x", "../lib/x%1"),
			dirEntry("/var/lib/known", 0o755), fileEntry("/usr/lib/tmpfiles.d/known.conf", "d /var/lib/known 0700 - - -\n", 0o644)),
			"postinst", "adduser --system --group mosquitto\nchown mosquitto /var/lib/mosquitto\n"))
	require.Empty(t, r.Tree.Children("/var"))
	lines := strings.Split(text(t, r.Tree, varConf), "\n")
	require.Contains(t, lines, "d /var/lib/mosquitto 0755 700 0 -")
	require.Contains(t, lines, `C /var/lib/mosquitto/a\x20b 0600 0 0 -`)
	require.Contains(t, lines, "L /var/spool/x - - - - ../lib/x%%1")
	require.NotContains(t, strings.Join(lines, "\n"), "/var/lib/known ")
	require.Equal(t, "seed", text(t, r.Tree, "/usr/share/factory/var/lib/mosquitto/a b"))
}

func TestDevicesInVarAreRefused(t *testing.T) {
	_, err := Compose([]Package{pkg("a", "", entry{"/var/x", &tree.Inode{Type: tree.Fifo}})}, Options{})
	require.ErrorContains(t, err, "/var/x")
}

func TestStatusListsThePackagesWhoseFilesAreThere(t *testing.T) {
	r := compose(t, Options{}, pkg("zlib1g", "Depends: libc6\n"), pkg("dpkg", "", fileEntry("/usr/bin/dpkg", "", 0o755), fileEntry("/usr/share/shared/dpkg", "", 0o644)),
		pkg("bash", "Description: shell\n more\n", fileEntry("/usr/share/shared/bash", "", 0o644)))
	require.Equal(t, "Package: bash\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\nDescription: shell\n more\n\n"+
		"Package: zlib1g\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\nDepends: libc6\n\n", text(t, r.Tree, StatusPath))
	require.False(t, r.Tree.Exists("/usr/bin/dpkg"))
	require.True(t, r.Tree.Exists("/usr/share/shared/bash"), "a directory that another package uses stays")
	require.False(t, r.Tree.Exists("/usr/share/shared/dpkg"))
}

func TestLicencesStayAndOtherDocumentationGoes(t *testing.T) {
	r := compose(t, Options{}, pkg("a", "",
		fileEntry("/usr/share/doc/a/copyright", "licence", 0o644), fileEntry("/usr/share/doc/a/changelog.gz", "x", 0o644),
		fileEntry("/usr/share/doc/a/examples/x", "x", 0o644), fileEntry("/usr/share/doc/b/README", "x", 0o644),
		linkEntry("/usr/share/doc/liba", "a"), linkEntry("/usr/share/doc/libb", "b"),
		fileEntry("/usr/share/common-licenses/GPL-3", "x", 0o644), fileEntry("/usr/share/man/man1/a.1.gz", "x", 0o644),
		fileEntry("/usr/share/locale/de/x.mo", "x", 0o644)))
	require.Equal(t, []string{"a", "liba"}, r.Tree.Children("/usr/share/doc"))
	require.Equal(t, []string{"copyright"}, r.Tree.Children("/usr/share/doc/a"))
	require.True(t, r.Tree.Exists("/usr/share/common-licenses/GPL-3"))
	require.False(t, r.Tree.Exists("/usr/share/man"))
	require.False(t, r.Tree.Exists("/usr/share/locale"))
}

func TestEveryRemovalIsReportedWithItsReason(t *testing.T) {
	r := compose(t, Options{}, pkg("dpkg", "", fileEntry("/usr/bin/dpkg", "12345", 0o755)), pkg("a", "", fileEntry("/usr/share/man/man1/a", "123", 0o644)))
	reasons := map[string]Entry{}
	for _, e := range r.Report.Of("drop") {
		require.NotEmpty(t, e.Why, e.Path)
		reasons[e.Path] = e
	}
	require.Equal(t, int64(5), reasons["package dpkg"].Bytes)
	require.Equal(t, []string{"/usr/bin/dpkg"}, reasons["package dpkg"].Files)
	require.Equal(t, int64(3), reasons["/usr/share/man"].Bytes)
	var out strings.Builder
	n, err := r.Report.WriteTo(&out)
	require.NoError(t, err)
	require.Equal(t, int64(out.Len()), n)
	require.Contains(t, out.String(), "/usr/share/man")
}

func TestScriptsWithoutTheirInterpreterGo(t *testing.T) {
	r := compose(t, Options{}, pkg("a", "", fileEntry("/usr/bin/perl-script", "#! /usr/bin/perl -w\n", 0o755), linkEntry("/usr/bin/other-name", "perl-script"),
		fileEntry("/usr/bin/env-script", "#!/usr/bin/env python3\n", 0o755), fileEntry("/usr/bin/shell-script", "#!/bin/sh\n", 0o755),
		fileEntry("/usr/bin/sh", "elf", 0o755), fileEntry("/usr/bin/empty", "", 0o755)))
	require.Equal(t, []string{"empty", "sh", "shell-script"}, r.Tree.Children("/usr/bin"))
}

// hashed is content whose hash is known and that is not to be read.
type hashed struct{ tree.Content }

func (h hashed) SHA256() [sha256.Size]byte { return sha256.Sum256(h.Content.(tree.Bytes)) }

func (hashed) Open() (io.ReadCloser, error) { return nil, errors.New("it was read") }

func TestAScriptWhoseInterpreterIsKnownIsNotRead(t *testing.T) {
	entries := []entry{fileEntry("/usr/bin/perl-script", "perl", 0o755), fileEntry("/usr/bin/shell-script", "sh", 0o755), fileEntry("/usr/bin/sh", "elf", 0o755)}
	known := map[[sha256.Size]byte]string{}
	for i, interpreter := range []string{"/usr/bin/perl", "/usr/bin/sh", ""} {
		c := hashed{entries[i].n.Content}
		entries[i].n.Content, known[c.SHA256()] = c, interpreter
	}
	r := compose(t, Options{Interpreters: known}, pkg("a", "", entries...))
	require.Equal(t, []string{"sh", "shell-script"}, r.Tree.Children("/usr/bin"))

	delete(known, entries[0].n.Content.(hashed).SHA256())
	_, err := Compose([]Package{pkg("a", "", entries...)}, Options{Interpreters: known})
	require.ErrorContains(t, err, "/usr/bin/perl-script: it was read")
}

func TestTablesHaveAReasonForEachRow(t *testing.T) {
	for _, table := range [][]drop{unusedPackages, unusedFiles, serviceDrops(services.Ours()), unusedUnits} {
		seen := map[string]bool{}
		for _, d := range table {
			require.NotEmpty(t, d.why, d.pattern)
			require.False(t, seen[d.pattern], "%s appears twice", d.pattern)
			seen[d.pattern] = true
		}
	}
}

func TestEachDependencyThatIsNotFollowedHasAReason(t *testing.T) {
	seen := map[unneeded]bool{}
	for _, u := range unneededDependencies {
		require.NotEmpty(t, u.why, u.dependency)
		key := unneeded{pkg: u.pkg, dependency: u.dependency}
		require.False(t, seen[key], "%s of %s appears twice", u.dependency, u.pkg)
		seen[key] = true
		require.Contains(t, UnneededDependencies()[u.pkg], u.dependency)
	}
	require.NotContains(t, UnneededDependencies(), "systemd")
}

func TestTmpfilesPathsAreEscaped(t *testing.T) {
	require.Equal(t, `/var/a\x20b%%c\\d\x22e`, escapeTmpfiles(`/var/a b%c\d"e`))
}
