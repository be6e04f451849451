package kraft

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/linktrap"
)

// all is all that root does in Kafka's folder.
func all(s *Storage, jar string) (said []error) {
	home := filepath.Dir(s.Metadata)
	said = append(said, s.Check(), s.Clear())
	_, err := s.Empty()
	said = append(said, err)
	_, err = s.Unformatted()
	said = append(said, err)
	_, err = Archive(filepath.Join(home, "cds"), []string{jar}, nil)
	said = append(said, err, s.Format(context.Background(), nil, filepath.Join(home, "server.properties"), filepath.Join(home, "format.properties"),
		func(context.Context, []string) error { return nil }))
	return said
}

func links(t *testing.T) (s *Storage, jar string) {
	s = place(t)
	home := filepath.Dir(s.Metadata)
	write(t, filepath.Join(home, "server.properties"), "log.dirs="+s.Disks[0]+"\n")
	write(t, filepath.Join(s.Metadata, "__cluster_metadata-0", "quorum-state"), "x")
	write(t, filepath.Join(home, "cds", "kafka-old.jsa"), "x")
	jar = filepath.Join(home, "a.jar")
	write(t, jar, "x")
	return s, jar
}

// behind is what root would remove if it followed a link.
var behind = []string{metaFile, metaFile + ".tmp", "bootstrap.checkpoint", "__cluster_metadata-0/quorum-state", "quorum-state", "kafka-1.jsa", "log/" + metaFile, "1/log/" + metaFile}

// Kafka's user can lay anything into its own folder, also what has root remove, or tell of, a file of another.
func TestALinkInKafkasFolderLeadsNowhere(t *testing.T) {
	for _, name := range []string{"metadata", "metadata/" + metaFile, "metadata/__cluster_metadata-0", "metadata/bootstrap.checkpoint", "cds", "cds/kafka-2.jsa",
		"disks", "disks/1", "disks/1/log", "disks/1/log/" + metaFile, "server.properties", "format.properties"} {
		for _, kind := range linktrap.Kinds {
			t.Run(name+" is "+kind, func(t *testing.T) {
				outside := linktrap.New(t, behind...)
				s, jar := links(t)
				outside.Plant(t, kind, filepath.Join(filepath.Dir(s.Metadata), name))
				said := all(s, jar)
				outside.Untouched(t)
				if kind != "another name of a file" { // That one's content is the user's to read.
					for _, err := range said {
						if err != nil {
							require.NotContains(t, err.Error(), "the content of", "what is outside is told")
						}
					}
				}
				data, err := os.ReadFile(filepath.Join(filepath.Dir(s.Metadata), "format.properties"))
				if err == nil {
					require.NotContains(t, string(data), "log.dirs", "what root wrote is removed")
				}
			})
		}
	}
}

func TestALinkThatIsSwappedInWhileRootWorksLeadsNowhere(t *testing.T) {
	for _, name := range []string{"metadata", "metadata/__cluster_metadata-0", "cds"} {
		t.Run(name, func(t *testing.T) {
			outside := linktrap.New(t, behind...)
			s, jar := links(t)
			outside.While(t, filepath.Join(filepath.Dir(s.Metadata), name), 50, func() { all(s, jar) })
			outside.Untouched(t)
		})
	}
}

// What root reads in the runtime directory it writes where Kafka's user can read it.
func TestASecretBehindALinkIsNotRead(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	write(t, secret, "log.dirs=/x\npassword=hidden\n")
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "server.properties")))
	require.ErrorContains(t, limitDirectories(filepath.Join(dir, "server.properties"), filepath.Join(dir, "format.properties"), nil), "escapes")
	require.NoFileExists(t, filepath.Join(dir, "format.properties"))
}
