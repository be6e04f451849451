package pipeline

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/overlay"
	"spore/cluster/units"
)

// ownBuild has files and units of the user's own.
func ownBuild() *build {
	return &build{Options: Options{Config: &cluster.Config{
		Overlay: cluster.Overlay{Entries: []overlay.Entry{
			{Path: "/etc", Type: fs.ModeDir},
			{Path: "/etc/link", Type: fs.ModeSymlink, Target: "a"},
			{Path: "/etc/modules-load.d/mine.conf", Data: []byte("# sound\nsnd-hda-intel\n\n; more\n i2c-dev\n")},
			{Path: "/etc/modules-load.d/README", Data: []byte("not-this\n")},
		}},
		Units: []units.File{{Path: "a.service", Data: []byte("[Service]\nExecStartPre=-/usr/sbin/modprobe can-raw\nExecStart=/a\n")}},
	}}}
}

func TestEverythingOfOwnFilesIsPartOfTheRootsKey(t *testing.T) {
	require.Empty(t, (&build{Options: Options{Config: &cluster.Config{}}}).ownKey(), "a folder without any costs nothing")
	base := ownBuild().ownKey()
	require.Equal(t, base, ownBuild().ownKey())
	for what, change := range map[string]func(c *cluster.Config){
		"the path":    func(c *cluster.Config) { c.Overlay.Entries[0].Path = "/opt" },
		"the data":    func(c *cluster.Config) { c.Overlay.Entries[2].Data = []byte("x") },
		"the kind":    func(c *cluster.Config) { c.Overlay.Entries[0].Type = 0 },
		"the target":  func(c *cluster.Config) { c.Overlay.Entries[1].Target = "b" },
		"execution":   func(c *cluster.Config) { c.Overlay.Entries[2].Executable = true },
		"the owner":   func(c *cluster.Config) { c.Overlay.Entries[2].File.Owner = "mosquitto" },
		"the group":   func(c *cluster.Config) { c.Overlay.Entries[2].File.Group = "mosquitto" },
		"the mode":    func(c *cluster.Config) { c.Overlay.Entries[2].File.Mode = "0600" },
		"replace":     func(c *cluster.Config) { c.Overlay.Entries[2].File.Replace = true },
		"a unit":      func(c *cluster.Config) { c.Units[0].Data = nil },
		"its name":    func(c *cluster.Config) { c.Units[0].Path = "b.service" },
		"one less":    func(c *cluster.Config) { c.Units = nil },
		"a file less": func(c *cluster.Config) { c.Overlay.Entries = c.Overlay.Entries[1:] },
	} {
		b := ownBuild()
		change(b.Config)
		require.NotEqual(t, base, b.ownKey(), what)
	}
	// Where overlay.yaml says so changes nothing in the root.
	b := ownBuild()
	b.Config.Overlay.Entries[2].At = "overlay.yaml:9:9"
	require.Equal(t, base, b.ownKey())
}

func TestModulesThatOwnFilesLoadStay(t *testing.T) {
	require.Equal(t, []string{"snd-hda-intel", "i2c-dev", "can-raw"}, ownBuild().ownModules())
}

func TestTheProvenanceNamesOwnFiles(t *testing.T) {
	var names []string
	for _, r := range ownBuild().ownResources() {
		names = append(names, r.Name)
		require.Len(t, r.Digest, 64)
	}
	require.Equal(t, []string{"overlay/etc/modules-load.d/mine.conf", "overlay/etc/modules-load.d/README", "units/a.service"}, names)
}
