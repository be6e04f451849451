// Package secrets takes the node's bundle of secrets and lays each into a file that services load as a credential.
//
// The bundle comes as the SMBIOS credential spore.bundle. Where the cluster part carries the cluster's signing keys, it must
// be one that `spore pki bundle` made, signed by one of them (package bundle). An image that was built without keys takes
// JSON with the cluster's id, the node's name and the secrets by name. One that is made for another cluster or node is
// refused as a whole.
package secrets

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"spore/agent/atomicfile"
	"spore/cluster/spec"
	"spore/pki/bundle"
)

// Bundle is the content of the credential.
type Bundle struct {
	Cluster string            `json:"cluster"`
	Node    string            `json:"node"`
	Secrets map[string]string `json:"secrets"`
}

// Bounds of a bundle. A credential has at most 1 MiB (systemd, CREDENTIAL_SIZE_MAX).
const (
	maxBundle  = 1 << 20
	maxSecrets = 1024
)

// ValidRef tells whether a name can name a secret: [a-z0-9][a-z0-9-]{0,62}. It becomes a file name. (A regexp would cost
// every process of the agent a quarter of a millisecond.)
func ValidRef(ref string) bool {
	if len(ref) == 0 || len(ref) > 63 || ref[0] == '-' {
		return false
	}
	for _, c := range []byte(ref) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

// Whose says for whom a bundle must be, and whose signature it must carry.
type Whose struct {
	// Cluster is the cluster's id, Node the node's name.
	Cluster, Node string
	// SigningKeys are the cluster's Ed25519 public keys in base64; none takes the bundle as it comes.
	SigningKeys []string
}

// Open reads a bundle and checks that it is for this node.
func Open(r io.Reader, w Whose) (Bundle, error) {
	if len(w.SigningKeys) == 0 {
		return Parse(r, w.Cluster, w.Node)
	}
	whose := bundle.Whose{Cluster: w.Cluster, Node: w.Node}
	for _, text := range w.SigningKeys {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return Bundle{}, errors.New("the cluster part has a signing key that is none; build the image again")
		}
		whose.Keys = append(whose.Keys, key)
	}
	b, err := bundle.Open(r, whose)
	return Bundle{Cluster: b.Cluster, Node: b.Node, Secrets: b.Secrets}, err
}

// Parse reads an unsigned bundle and checks that it is for this node.
func Parse(r io.Reader, cluster, node string) (Bundle, error) {
	var b Bundle
	d := json.NewDecoder(io.LimitReader(r, maxBundle))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return Bundle{}, errors.New("the secret bundle is not valid JSON of its form") // The cause would quote it.
	}
	if !strings.EqualFold(b.Cluster, cluster) {
		return Bundle{}, fmt.Errorf("the secret bundle is for the cluster with the id %.64q, and this is %q", b.Cluster, cluster)
	}
	if b.Node != node {
		return Bundle{}, fmt.Errorf("the secret bundle is for node %.64q, and this is %q", b.Node, node)
	}
	if len(b.Secrets) > maxSecrets {
		return Bundle{}, fmt.Errorf("the secret bundle has %d secrets, more than %d", len(b.Secrets), maxSecrets)
	}
	for ref := range b.Secrets {
		if !ValidRef(ref) {
			return Bundle{}, fmt.Errorf("the secret bundle has a secret named %.64q; names are lower-case letters, digits and -", ref)
		}
	}
	return b, nil
}

// Install makes dir hold exactly those secrets of the bundle that wanted names by service: one directory for each service,
// readable by root alone, so that a service is given its own secrets and no other. What nobody wants is not written.
func Install(dir string, b Bundle, wanted map[string][]string) error {
	if err := privateDir(dir); err != nil {
		return fmt.Errorf("install secrets: %w", err)
	}
	keep := map[string]bool{}
	for _, service := range slices.Sorted(maps.Keys(wanted)) {
		keep[service] = true
		if err := installFor(filepath.Join(dir, service), b, wanted[service]); err != nil {
			return fmt.Errorf("install secrets of %s: %w", service, err)
		}
	}
	return prune(dir, keep)
}

func installFor(dir string, b Bundle, refs []string) error {
	if err := privateDir(dir); err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, ref := range refs {
		secret, ok := b.Secrets[ref]
		if !ok {
			continue
		}
		keep[ref] = true
		if _, err := atomicfile.Write(filepath.Join(dir, ref), []byte(secret), 0o600); err != nil {
			return err
		}
	}
	return prune(dir, keep)
}

func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// prune removes what an earlier bundle left.
func prune(dir string, keep map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove an earlier secret: %w", err)
			}
		}
	}
	return nil
}

// FromCredential reads the bundle from the service's credentials directory. ok is false when there is none.
func FromCredential(dir string, w Whose) (b Bundle, ok bool, err error) {
	if dir == "" {
		return Bundle{}, false, nil
	}
	f, err := os.Open(filepath.Join(dir, "spore.bundle"))
	if errors.Is(err, fs.ErrNotExist) {
		return Bundle{}, false, nil
	}
	if err != nil {
		return Bundle{}, false, fmt.Errorf("read the secret bundle: %w", err)
	}
	defer f.Close()
	b, err = Open(f, w)
	return b, err == nil, err
}

// Refs lists the secrets that the settings of a service name, sorted, each once.
func Refs(settings any) []string {
	var out []string
	walk(reflect.ValueOf(settings), &out)
	sort.Strings(out)
	return slices.Compact(out)
}

var refType = reflect.TypeFor[spec.SecretRef]()

func walk(v reflect.Value, out *[]string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), out)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), out)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			walk(v.MapIndex(k), out)
		}
	case reflect.Struct:
		if v.Type() == refType {
			if ref := v.Field(0).String(); ref != "" {
				*out = append(*out, ref)
			}
			return
		}
		for i := range v.NumField() {
			walk(v.Field(i), out)
		}
	}
}
