package kraft

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"spore/storage/atomicfile"
)

// metaFile is in each directory that is formatted (org.apache.kafka.metadata.properties.MetaProperties).
const metaFile = "meta.properties"

// maxMeta bounds that file in bytes; Kafka's has about 150.
const maxMeta = 64 << 10

// Meta says whose a directory is.
type Meta struct {
	// Cluster is Kafka's id of the cluster, Node the node.id, Directory the directory's own id.
	Cluster   string
	Node      int32
	Directory string
}

// ReadMeta reads what a directory says of itself; nil when it is not formatted.
func ReadMeta(dir string) (*Meta, error) {
	home, err := os.OpenRoot(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read whose %s is: %w", dir, err)
	}
	defer home.Close()
	return readMeta(home, filepath.Base(dir))
}

// readMeta is ReadMeta in the folder of Kafka's user. What is behind a link that leads out of it is not read: an error
// tells some of what it read.
func readMeta(home *os.Root, name string) (*Meta, error) {
	dir := filepath.Join(home.Name(), name)
	path := filepath.Join(dir, metaFile)
	data, err := atomicfile.ReadLimitedIn(home, filepath.Join(name, metaFile), maxMeta)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read whose %s is: %w", dir, err)
	}
	m, err := parseMeta(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// parseMeta reads version 1 of the file. It is in Java's properties format, of which Kafka writes lines KEY=VALUE alone; a
// colon or a backslash, which that format gives a meaning to, is in none of the values that are read here.
func parseMeta(data []byte) (*Meta, error) {
	values := map[string]string{}
	for _, line := range bytes.Split(data, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, ok := bytes.Cut(line, []byte("="))
		if !ok {
			return nil, fmt.Errorf("%.80q is not KEY=VALUE", line)
		}
		values[string(bytes.TrimSpace(key))] = string(bytes.TrimSpace(value))
	}
	if v := values["version"]; v != "1" {
		return nil, fmt.Errorf("version %.20q is not 1, which Kafka has had since it has KRaft", v)
	}
	node, err := strconv.ParseInt(values["node.id"], 10, 32)
	if err != nil || node < 0 {
		return nil, fmt.Errorf("node.id %.20q is not the number of a node", values["node.id"])
	}
	if values["cluster.id"] == "" {
		return nil, errors.New("it has no cluster.id")
	}
	return &Meta{Cluster: values["cluster.id"], Node: int32(node), Directory: values["directory.id"]}, nil
}
