package kraft

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
)

// Storage is where a node's Kafka keeps its data, and for whom. All of it lies in one folder, which Kafka's user can
// write: root follows nothing in there that leads out of it.
type Storage struct {
	// Metadata is the directory of the metadata log, in that folder. Data is a log directory beside it; empty when there
	// is none. Both are made when they are missing.
	Metadata, Data string
	// Disks are log directories on data disks; one that is missing is on a disk that is away.
	Disks []string
	// Cluster is Kafka's id of the cluster, Node the node.id.
	Cluster string
	Node    int32
}

// Voter is one of the first controllers.
type Voter struct {
	Node int32
	// Address is HOST:PORT of its listener for controllers.
	Address string
	// Directory is the id of its metadata directory.
	Directory string
}

func (v Voter) String() string { return fmt.Sprintf("%d@%s:%s", v.Node, v.Address, v.Directory) }

// DirectoryID is the id of the metadata directory of one of the first controllers. All of them know each other's, since it
// comes from the cluster's id, the node's name, and the incarnation that the formation counted it with; a controller whose
// data was lost has another incarnation, and never is the same voter.
func DirectoryID(cluster, node, incarnation string) string {
	for i := 0; ; i++ {
		mac := hmac.New(sha256.New, []byte("spore kafka directory"))
		fmt.Fprintf(mac, "%s\n%s\n%s\n%d", cluster, node, incarnation, i)
		id := mac.Sum(nil)[:16]
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, as Kafka's own are; so it is none of the reserved ones
		// Kafka's own never begin with a dash either (org.apache.kafka.common.Uuid).
		if s := base64.RawURLEncoding.EncodeToString(id); s[0] != '-' {
			return s
		}
	}
}

// in has something done in Kafka's folder. Without the folder there is nothing to do.
func (s *Storage) in(do func(home *os.Root) error) error {
	home, err := os.OpenRoot(filepath.Dir(s.Metadata))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the folder of Kafka's data: %w", err)
	}
	defer home.Close()
	return do(home)
}

// name is that of a directory in Kafka's folder.
func (s *Storage) name(dir string) (string, error) {
	name, err := filepath.Rel(filepath.Dir(s.Metadata), dir)
	if err != nil || !filepath.IsLocal(name) {
		return "", fmt.Errorf("internal error: %s is not in the folder of %s", dir, s.Metadata)
	}
	return name, nil
}

// meta is what a directory says of itself.
func (s *Storage) meta(dir string) (m *Meta, err error) {
	err = s.in(func(home *os.Root) error {
		name, err := s.name(dir)
		if err != nil {
			return err
		}
		m, err = readMeta(home, name)
		return err
	})
	return m, err
}

// Check refuses directories of another cluster or node.
func (s *Storage) Check() error {
	for _, dir := range s.directories() {
		m, err := s.meta(dir)
		switch {
		case err != nil:
			return err
		case m == nil:
		case m.Cluster != s.Cluster:
			return fmt.Errorf("%s holds data of another Kafka cluster (%.40q, and this one is %q); it is left as it is: attach the disk that belongs here, or empty this one by hand", dir, m.Cluster, s.Cluster)
		case m.Node != s.Node:
			return fmt.Errorf("%s holds data of another node of this Kafka (node.id %d, and this one is %d); it is left as it is: attach the disk to the node that it is of, or empty it by hand", dir, m.Node, s.Node)
		}
	}
	return nil
}

// directories lists all directories that are there or may be made.
func (s *Storage) directories() []string {
	out := []string{s.Metadata}
	if s.Data != "" {
		out = append(out, s.Data)
	}
	_ = s.in(func(home *os.Root) error { // Without the folder, no disk is there.
		for _, dir := range s.Disks {
			name, err := s.name(dir)
			if err == nil {
				_, err = home.Stat(name)
			}
			if err == nil {
				out = append(out, dir)
			}
		}
		return nil
	})
	return out
}

// Empty tells whether the metadata directory was never formatted.
func (s *Storage) Empty() (bool, error) {
	m, err := s.meta(s.Metadata)
	return m == nil, err
}

// Unformatted lists the directories that are to be formatted: a broker does not start with one that is there and blank.
func (s *Storage) Unformatted() ([]string, error) {
	var out []string
	for _, dir := range s.directories() {
		m, err := s.meta(dir)
		if err != nil {
			return nil, err
		}
		if m == nil {
			out = append(out, dir)
		}
	}
	return out, nil
}

// Clear takes away what an interrupted formatting left in the metadata directory, which Kafka has never run with. It refuses
// a directory with a log, which only Kafka itself writes.
func (s *Storage) Clear() error { return s.in(s.clear) }

func (s *Storage) clear(home *os.Root) error {
	metadata := filepath.Base(s.Metadata)
	partition := filepath.Join(metadata, "__cluster_metadata-0")
	names, err := namesIn(home, partition)
	if err != nil {
		return fmt.Errorf("clear an unfinished formatting: %w", err)
	}
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") }) {
		return fmt.Errorf("%s holds a metadata log although its formatting was never finished; it is left as it is: call for help before you remove it", s.Metadata)
	}
	for _, name := range []string{metaFile, metaFile + ".tmp", "bootstrap.checkpoint", "bootstrap.checkpoint.tmp"} {
		if err := home.Remove(filepath.Join(metadata, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clear an unfinished formatting: %w", err)
		}
	}
	if err := home.RemoveAll(partition); err != nil {
		return fmt.Errorf("clear an unfinished formatting: %w", err)
	}
	return nil
}

// namesIn lists a directory in Kafka's folder; one that is not there has nothing in it.
func namesIn(home *os.Root, dir string) ([]string, error) {
	d, err := atomicfile.DirIn(home, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// Formatter runs Kafka's StorageTool with these arguments.
type Formatter func(ctx context.Context, arguments []string) error

// Format formats all directories that are not, as one of the first controllers where voters are given, and makes it last. What
// is formatted stays as it is. properties
// is server.properties; scratch is where a copy of it goes that has the present directories alone.
func (s *Storage) Format(ctx context.Context, voters []Voter, properties, scratch string, run Formatter) error {
	if err := limitDirectories(properties, scratch, s.directories()); err != nil {
		return err
	}
	defer os.Remove(scratch)
	args := []string{"format", "--cluster-id", s.Cluster, "--config", scratch, "--ignore-formatted"}
	if len(voters) == 0 {
		args = append(args, "--no-initial-controllers")
	} else {
		var list []string
		for _, v := range voters {
			list = append(list, v.String())
		}
		slices.Sort(list)
		args = append(args, "--initial-controllers", strings.Join(list, ","))
	}
	if err := run(ctx, args); err != nil {
		return fmt.Errorf("format the storage of Kafka: %w", err)
	}
	left, err := s.Unformatted()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("format the storage of Kafka: %s is not formatted although Kafka's tool says so", strings.Join(left, ", "))
	}
	for _, dir := range s.directories() {
		if err := s.sync(dir); err != nil {
			return fmt.Errorf("make %s last: %w", dir, err)
		}
	}
	return nil
}

// maxRuntime bounds a file of the unit's runtime directory, in bytes.
const maxRuntime = 1 << 20

// ReadRuntime reads a file of the unit's runtime directory, which belongs to Kafka's user, for root.
func ReadRuntime(path string) ([]byte, error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return atomicfile.ReadLimitedIn(dir, filepath.Base(path), maxRuntime)
}

// limitDirectories writes server.properties with only those log directories that are there, since the tool would make the
// others, below mount points.
func limitDirectories(from, to string, present []string) error {
	// Kafka's user can write there, too, and can read what is made of it.
	data, err := ReadRuntime(from)
	if err != nil {
		return fmt.Errorf("read Kafka's configuration: %w", err)
	}
	lines := strings.Split(string(data), "\n")
	found := false
	for i, line := range lines {
		list, ok := strings.CutPrefix(line, "log.dirs=")
		if !ok {
			continue
		}
		found = true
		dirs := slices.DeleteFunc(strings.Split(list, ","), func(d string) bool { return !slices.Contains(present, d) })
		if len(dirs) == 0 {
			dirs = present // All disks are away: the metadata alone.
		}
		lines[i] = "log.dirs=" + strings.Join(dirs, ",")
	}
	if !found {
		return fmt.Errorf("read Kafka's configuration: %s has no log.dirs", from)
	}
	// Readable to the tool, which is not root, whatever the unit's umask is.
	if _, err := atomicfile.Write(to, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		return fmt.Errorf("write a configuration to format by: %w", err)
	}
	return nil
}

// sync is syncfs(2): the tool does not flush everything that it writes.
func (s *Storage) sync(dir string) error {
	return s.in(func(home *os.Root) error {
		name, err := s.name(dir)
		if err != nil {
			return err
		}
		d, err := atomicfile.DirIn(home, name)
		if err != nil {
			return err
		}
		defer d.Close()
		return unix.Syncfs(int(d.Fd()))
	})
}
