package datadisk

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/linktrap"
)

// service is a folder of the service's, with the directory of its mount points.
func service(t *testing.T) Options {
	o := Options{ClusterID: clusterID, Node: "n1", Use: Kafka, Disks: disksOf(Kafka, "A"), UID: 4242, GID: 4242, Dirs: []Dir{{LogDir, 4242, 4242}}, Mounts: filepath.Join(t.TempDir(), "kafka", "disks"), Say: func(string) {}}
	if os.Geteuid() != 0 {
		t.Skip("only root gives directories away")
	}
	require.NoError(t, os.MkdirAll(filepath.Join(o.Mounts, "1"), 0o755))
	require.NoError(t, os.Chown(filepath.Dir(o.Mounts), 4242, 4242))
	return o
}

// all is all that root does between the service's folder and a disk that is mounted there.
func all(o Options) {
	if o.mountPoints() == nil {
		_ = o.claim(filepath.Join(o.Mounts, "1"))
	}
	_ = o.claim(filepath.Join(o.Mounts, "1"))
}

// The service can lay anything into its folder, and a disk can come with anything.
func TestALinkInTheServicesFolderOrOnADiskLeadsNowhere(t *testing.T) {
	for _, name := range []string{"disks", "disks/1", "disks/1/log", "disks/1/" + bindingFile} {
		for _, kind := range linktrap.Kinds {
			t.Run(name+" is "+kind, func(t *testing.T) {
				outside := linktrap.New(t, "1/log/kept", "log/kept")
				o := service(t)
				outside.Plant(t, kind, filepath.Join(filepath.Dir(o.Mounts), name))
				all(o)
				outside.Untouched(t)
			})
		}
	}
}

func TestALinkThatIsSwappedInWhileADiskIsTakenLeadsNowhere(t *testing.T) {
	for _, name := range []string{"disks", "disks/1"} {
		outside := linktrap.New(t, "1/log/kept", "log/kept")
		o := service(t)
		outside.While(t, filepath.Join(filepath.Dir(o.Mounts), name), 50, func() { all(o) })
		outside.Untouched(t)
	}
}

// A mount would go where the link leads, with what is on the service's disk.
func TestNoDiskIsMountedBehindALink(t *testing.T) {
	for _, name := range []string{"disks", "disks/1"} {
		o := service(t)
		o.Mount = func(context.Context, string, string) error { return nil }
		require.NoError(t, o.mountPoints(), "as it is")
		linktrap.New(t).Plant(t, "a link to a folder", filepath.Join(filepath.Dir(o.Mounts), name))
		require.ErrorContains(t, o.mountPoints(), "is not a directory")
	}
}
