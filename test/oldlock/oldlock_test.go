package oldlock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/apt"
	"spore/builder/lock"
)

func archive() Archive {
	p := func(name, source, version string) apt.Package {
		return apt.Package{Name: name, Source: source, Version: version, Arch: "amd64", Filename: "pool/" + name + "_" + version}
	}
	return Archive{[]apt.Package{
		p("openssl", "", "3.5.1-1"), p("libssl3t64", "openssl", "3.5.1-1"),
		p("openssl", "", "3.5.4-1"), p("libssl3t64", "openssl (3.5.4-1)", "3.5.4-1"),
		p("openssl", "", "3.5.5-1"), p("libssl3t64", "openssl", "3.5.5-1"),
		p("half", "", "1"), p("half", "", "2"), p("libhalf", "half", "2"),
		p("linux-image-6.12.100+deb13-amd64", "linux", "6.12.100-1"), p("linux-image-6.12.110+deb13-amd64", "linux", "6.12.110-1"),
		p("linux-image-6.12.111+deb13-cloud-amd64", "linux", "6.12.111-1"), p("linux-image-6.12.118+deb13-amd64", "linux", "6.12.118-1"),
	}}
}

func today() *lock.Lock {
	return &lock.Lock{Kernel: "6.12.118+deb13-amd64", Packages: []lock.Package{
		{Name: "half", Version: "2"}, {Name: "libhalf", Version: "2", Source: "half"}, {Name: "libssl3t64", Version: "3.5.5-1", Source: "openssl"},
		{Name: "linux-image-6.12.118+deb13-amd64", Version: "6.12.118-1", Source: "linux"}, {Name: "openssl", Version: "3.5.5-1"},
	}}
}

// versions are those of a lock by the names of its packages.
func versions(l *lock.Lock) map[string]string {
	out := map[string]string{}
	for _, p := range l.Packages {
		out[p.Name] = p.Version
	}
	return out
}

func TestOnlyTheKernelIsOlder(t *testing.T) {
	l := today()
	older, err := archive().Kernel(l)
	require.NoError(t, err)
	require.Equal(t, "6.12.110+deb13-amd64", older.Kernel, "of the same flavour")
	got := versions(older)
	require.Equal(t, "6.12.110-1", got["linux-image-6.12.110+deb13-amd64"])
	require.Equal(t, "3.5.5-1", got["openssl"])
	require.Equal(t, versions(today()), versions(l), "the lock that was given stays")
	_, err = archive().Kernel(&lock.Lock{Kernel: "6.12.100+deb13-amd64", Packages: []lock.Package{{Name: "linux-image-6.12.100+deb13-amd64", Version: "6.12.100-1"}}})
	require.ErrorContains(t, err, "no suite has an older kernel")
	_, err = archive().Kernel(&lock.Lock{Kernel: "6.12.118+deb13-amd64"})
	require.ErrorContains(t, err, "the lock has no package linux-image-")
}

func TestAllPackagesOfOneSourceAreOlder(t *testing.T) {
	older, err := archive().Source(today(), "nothing", "half", "openssl")
	require.NoError(t, err)
	got := versions(older)
	require.Equal(t, "3.5.4-1", got["openssl"])
	require.Equal(t, "3.5.4-1", got["libssl3t64"], "both by one version")
	require.Equal(t, "2", got["half"], "half has no version that both of its packages have")
	require.Equal(t, "6.12.118+deb13-amd64", older.Kernel)
	_, err = archive().Source(today(), "nothing", "half")
	require.ErrorContains(t, err, "no suite has an older version of nothing, half")
}
