package reference

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestTheMirrorIsTheMachinesOwn(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"of a .sources file": {"etc/apt/sources.list.d/debian.sources",
			"Types: deb\nURIs: http://mirror.example/debian/\n", "http://mirror.example/debian"},
		"of sources.list": {"etc/apt/sources.list", "deb [arch=amd64] https://mirror.example/debian bookworm main\n",
			"https://mirror.example/debian"},
		"of a .list file": {"etc/apt/sources.list.d/x.list", "deb http://mirror.example/debian trixie main\n",
			"http://mirror.example/debian"},
		"not that of updates": {"etc/apt/sources.list",
			"deb http://a.example/debian-security x main\ndeb http://b.example/debian x main\n", "http://b.example/debian"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Mirror(fstest.MapFS{c.file: {Data: []byte(c.text)}})
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	for name, text := range map[string]string{
		"no sources": "", "a source of others": "deb http://mirror.example/ubuntu noble main\n",
		"a folder on the disk": "deb file:/srv/debian trixie main\n",
	} {
		t.Run(name+" is an error", func(t *testing.T) {
			_, err := Mirror(fstest.MapFS{"etc/apt/sources.list": {Data: []byte(text)}})
			require.ErrorContains(t, err, "name no Debian mirror")
		})
	}
}

func TestTheSuitesAreThoseOfTheBuilder(t *testing.T) {
	require.Equal(t, "deb http://m/debian trixie main\ndeb http://m/debian trixie-updates main\n"+
		"deb http://m/debian-security trixie-security main\n", sources("trixie", "http://m/debian"))
}
