package needs

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster"
)

// loadOwn reads a configuration with files and units of the user's own.
func loadOwn(t *testing.T, more fstest.MapFS) *cluster.Config {
	t.Helper()
	folder := fstest.MapFS{
		"cluster.yaml":           {Data: []byte("name: plant\nservices: [dns]\n")},
		"overlay.yaml":           {Data: []byte("files:\n  /etc/a: {group: mosquitto, mode: \"0640\"}\n  /srv/made: {mode: \"0700\"}\n")},
		"overlay/etc/a":          {Data: []byte("a"), Mode: 0o600},
		"overlay/etc/link":       {Data: []byte("a"), Mode: fs.ModeSymlink},
		"overlay/opt/x/tool":     {Data: []byte("tool"), Mode: 0o755},
		"overlay/srv/made/below": {Data: []byte("b"), Mode: 0o644},
		"overlay/srv/empty":      {Mode: fs.ModeDir | 0o700},
		"units/a.service":        {Data: []byte("[Service]\nExecStart=/opt/x/tool\n")},
	}
	for name, f := range more {
		if folder[name] = f; f == nil {
			delete(folder, name)
		}
	}
	c, _ := cluster.Check(folder, cluster.Options{})
	return c
}

func TestOwnFilesAreListedAsTheRootHasThem(t *testing.T) {
	var got []string
	for _, f := range OwnFiles(loadOwn(t, nil)) {
		got = append(got, fmt.Sprintf("%s %s %s %s:%s %s %.8s %d %s", f.From, f.Path, f.Type, f.Owner, f.Group, f.Mode, f.SHA256, f.Size, f.Target))
	}
	require.Equal(t, []string{
		"overlay/etc/a /etc/a file root:mosquitto 0640 ca978112 1 ",
		"overlay/etc/link /etc/link symlink root:root 0777  0 a",
		"overlay/opt/x/tool /opt/x/tool file root:root 0755 7c9bbe5e 4 ",
		"overlay/srv/empty /srv/empty dir root:root 0755  0 ",
		"overlay/srv/made /srv/made dir root:root 0700  0 ",
		"overlay/srv/made/below /srv/made/below file root:root 0644 3e23e816 1 ",
		"units/a.service /etc/systemd/system/a.service file root:root 0644 9669837d 32 ",
	}, got)
	require.Empty(t, OwnFiles(&cluster.Config{}))
}

func TestARootWithOtherOwnFilesIsRefused(t *testing.T) {
	built := loadOwn(t, nil)
	for name, tc := range map[string]struct {
		more fstest.MapFS
		want []string
	}{
		"the same":                          {},
		"the mode of the user's own folder": {fstest.MapFS{"overlay/etc/a": {Data: []byte("a"), Mode: 0o444}}, nil},
		"a new file":                        {fstest.MapFS{"overlay/etc/b": {Data: []byte("b")}}, []string{"overlay/etc/b:1:1: error: the image was built without this file"}},
		"another content":                   {fstest.MapFS{"overlay/etc/a": {Data: []byte("b")}}, []string{"overlay/etc/a:1:1: error: the image was built with another content of this file"}},
		"another target":                    {fstest.MapFS{"overlay/etc/link": {Data: []byte("../opt"), Mode: fs.ModeSymlink}}, []string{"overlay/etc/link:1:1: error: the image was built with another content of this file"}},
		"another unit":                      {fstest.MapFS{"units/a.service": {Data: []byte("[Service]\nExecStart=/b\n")}}, []string{"units/a.service:1:1: error: the image was built with another content of this file"}},
		"a file that is gone":               {fstest.MapFS{"overlay/etc/link": nil, "units/a.service": nil}, []string{"overlay/etc/link:1:1: error: the image has this file, and the configuration does not", "units/a.service:1:1: error: the image has this file, and the configuration does not"}},
		"another mode": {fstest.MapFS{"overlay.yaml": {Data: []byte("files:\n  /etc/a: {group: mosquitto, mode: \"0600\"}\n  /srv/made: {mode: \"0700\"}\n")}},
			[]string{"overlay.yaml:2:11: error: the image has /etc/a with owner root, group mosquitto and mode 0640"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := rootOf(t, built)
			root.Own = OwnFiles(built)
			report, err := Missing(loadOwn(t, tc.more), root, fstest.MapFS{})
			require.NoError(t, err)
			var got []string
			for _, p := range report {
				got = append(got, p.String())
			}
			require.Equal(t, tc.want, got)
		})
	}
}
