// Package nocloud reads what a hypervisor tells a virtual machine about itself in the way of cloud-init's NoCloud:
// a volume with the label CIDATA, the serial number of SMBIOS that begins with ds=nocloud, and credentials. It takes
// the documents meta-data (instance-id, local-hostname), user-data (the key spore alone) and network-config (versions
// 1 and 2), and names every other key as not taken.
//
// All of it is outside data that Secure Boot does not cover. It chooses a node and describes the network; it never names
// a package, a command, a user or a file. What it brings is judged by others: the node by package cluster/identity, the
// bundle by package delivery.
package nocloud

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"spore/storage/atomicfile"
)

// Names of the documents, as files of a volume.
const (
	MetaData      = "meta-data"
	UserData      = "user-data"
	NetworkConfig = "network-config"
	vendorData    = "vendor-data"
	// Answers is the answer file of an unattended installation (package cluster/answers).
	Answers = "spore-answers.yaml"
)

// credentialPrefix begins the names of the credentials with the documents, such as spore.user-data.
const credentialPrefix = "spore."

// Bounds on what is kept for the status.
const (
	maxNotTaken = 32
	maxText     = 64
	// maxID is that of an instance-id: KubeVirt's has the names of a machine and of its namespace.
	maxID = 253
)

// Found is what was found. Its zero value is a machine without any of it.
type Found struct {
	// From names the places that said something, for people.
	From []string `json:"from,omitempty"`
	// InstanceID is the hypervisor's name for the machine, Hostname its local-hostname. Neither proves anything.
	InstanceID string `json:"instanceID,omitempty"`
	Hostname   string `json:"hostname,omitempty"`
	// Node is the node that was chosen.
	Node string `json:"node,omitempty"`
	// Network describes the network; nil when nothing does.
	Network *Network `json:"network,omitempty"`
	// Bundle is the node's bundle of secrets as it came. It is no part of any file that all may read.
	Bundle []byte `json:"-"`
	// Answers is the answer file of a volume as it came. Nobody has looked at it yet.
	Answers []byte `json:"-"`
	// NotTaken names the keys that nobody here takes, such as "user-data: packages".
	NotTaken []string `json:"notTaken,omitempty"`
	// Problem says in words why nothing was taken.
	Problem string `json:"problem,omitempty"`
	// Disputed says that one of several places that disagree chose a node.
	Disputed bool `json:"disputed,omitempty"`
	// volume says that it was found on a volume.
	volume bool
}

// Any tells whether there is anything to say.
func (f Found) Any() bool { return len(f.From) > 0 || f.Problem != "" }

// Options says where to look.
type Options struct {
	Source
	// Serial is the machine's serial number by SMBIOS.
	Serial string
	// Credentials is the service's credentials directory; empty when it has none.
	Credentials string
	// Volumes says whether volumes are looked for.
	Volumes bool
}

// Announced tells whether a serial number says that there is something of NoCloud, as libvirt writes it.
func Announced(serial string) bool {
	first, _, _ := strings.Cut(serial, ";")
	return first == "ds=nocloud" || first == "ds=nocloud-net"
}

// Find reads all places. It returns what they say together; where two of them disagree it takes nothing of either.
func Find(o Options) Found {
	var list []Found
	if o.Volumes {
		volumes, err := o.Source.Volumes(MetaData, UserData, NetworkConfig, vendorData, Answers)
		if err != nil {
			list = append(list, Found{Problem: err.Error()})
		}
		for _, v := range volumes {
			if v.Err != nil {
				list = append(list, Found{From: []string{v.String()}, Problem: v.Err.Error()})
				continue
			}
			f := parse(v.String(), v.Files)
			f.volume = true
			if len(v.Files) == 0 { // As with names of ISO 9660 alone: USER_DAT.;1.
				f.NotTaken = append(f.NotTaken, v.String()+": it has none of the files "+strings.Join([]string{MetaData, UserData, NetworkConfig}, ", "))
			}
			list = append(list, f)
		}
	}
	if Announced(o.Serial) {
		list = append(list, parseSerial(o.Serial))
	}
	if files := credentials(o.Credentials); len(files) > 0 {
		list = append(list, parse("the credentials of firmware or hypervisor", files))
	}
	return together(list)
}

// credentials reads the documents that came as credentials.
func credentials(dir string) map[string][]byte {
	files := map[string][]byte{}
	if dir == "" {
		return files
	}
	for _, name := range []string{MetaData, UserData, NetworkConfig} {
		data, err := atomicfile.ReadLimited(filepath.Join(dir, credentialPrefix+name), MaxFile)
		if err == nil {
			files[name] = data
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			files[name] = []byte("\x00") // Named as malformed.
		}
	}
	return files
}

// together joins what several places say. What one says and another does not is no contradiction, but between two volumes.
func together(list []Found) Found {
	var out Found
	var problems []string
	for _, f := range list {
		out.From = append(out.From, f.From...)
		out.NotTaken = append(out.NotTaken, f.NotTaken...)
		if f.Problem != "" {
			problems = append(problems, strings.Join(append(f.From, f.Problem), ": "))
		}
	}
	slices.Sort(out.NotTaken)
	out.NotTaken = short(slices.Compact(out.NotTaken))
	if len(problems) > 0 {
		out.Problem = "nothing was taken: " + strings.Join(problems, "; ")
		out.Disputed = slices.ContainsFunc(list, func(f Found) bool { return f.Problem == "" && f.Node != "" })
		return out
	}
	for i, f := range list {
		for _, other := range list[:i] {
			if what := differ(other, f); what != "" {
				out.Problem = fmt.Sprintf("%s and %s disagree about the %s, so nothing of them was taken; take one of them away",
					strings.Join(other.From, ", "), strings.Join(f.From, ", "), what)
				out.Disputed = slices.ContainsFunc(list, func(f Found) bool { return f.Node != "" })
				return withoutFacts(out)
			}
		}
		out.fill(f)
	}
	return out
}

func withoutFacts(f Found) Found {
	return Found{From: f.From, NotTaken: f.NotTaken, Problem: f.Problem, Disputed: f.Disputed}
}

// fill takes what another place says and this one does not.
func (f *Found) fill(other Found) {
	for _, p := range []struct{ to, from *string }{{&f.InstanceID, &other.InstanceID}, {&f.Hostname, &other.Hostname}, {&f.Node, &other.Node}} {
		if *p.to == "" {
			*p.to = *p.from
		}
	}
	if f.Network == nil {
		f.Network = other.Network
	}
	if f.Bundle == nil {
		f.Bundle = other.Bundle
	}
	if f.Answers == nil {
		f.Answers = other.Answers
	}
}

// differ names what two places say differently; empty where they agree. Two volumes must say the same: one of them may
// be somebody else's, and a machine is not to be put together of both.
func differ(a, b Found) string {
	strict := a.volume && b.volume
	for _, p := range []struct{ what, a, b string }{{"node", a.Node, b.Node}, {"instance-id", a.InstanceID, b.InstanceID}, {"local-hostname", a.Hostname, b.Hostname}} {
		if (strict || p.a != "" && p.b != "") && p.a != p.b {
			return p.what
		}
	}
	switch {
	case (strict || a.Network != nil && b.Network != nil) && !a.Network.equal(b.Network):
		return "network"
	case (strict || a.Bundle != nil && b.Bundle != nil) && !bytes.Equal(a.Bundle, b.Bundle):
		return "bundle"
	case strict && !bytes.Equal(a.Answers, b.Answers):
		return "answer file"
	}
	return ""
}

// parseSerial reads a serial number such as ds=nocloud;h=edge-01;i=i-1 (cloud-init, "NoCloud", kernel command line).
func parseSerial(serial string) Found {
	f := Found{From: []string{"the serial number of SMBIOS"}}
	for _, word := range strings.Split(serial, ";")[1:] {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "":
		case "h", "local-hostname":
			f.Hostname, err = hostname(value)
		case "i", "instance-id":
			f.InstanceID, err = text(value, maxID)
		default: // s and seedfrom name an address that documents are fetched from.
			f.NotTaken = append(f.NotTaken, named("serial number: ", key))
		}
		if err != nil {
			f.Problem = fmt.Sprintf("%.16s: %v", key, err)
		}
	}
	return f
}

// parse reads the documents of one place.
func parse(from string, files map[string][]byte) Found {
	f := Found{From: []string{from}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(bytes.TrimSpace(files[name])) == 0 {
			continue
		}
		var err error
		switch name {
		case MetaData:
			err = f.metaData(files[name])
		case UserData:
			err = f.userData(files[name])
		case NetworkConfig:
			err = f.networkConfig(files[name])
		case Answers:
			f.Answers = files[name]
		default:
			f.NotTaken = append(f.NotTaken, name)
		}
		if err != nil {
			return Found{From: f.From, NotTaken: f.NotTaken, Problem: name + ": " + err.Error()}
		}
	}
	return f
}

func (f *Found) metaData(data []byte) error {
	doc, err := document(data)
	if err != nil {
		return err
	}
	for _, p := range doc.pairs {
		switch p.key {
		case "instance-id":
			f.InstanceID, err = p.instanceID()
		case "local-hostname", "hostname":
			if f.Hostname != "" && p.key == "hostname" {
				continue
			}
			f.Hostname, err = p.hostname()
		default:
			f.NotTaken = append(f.NotTaken, named(MetaData+": ", p.key))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
	}
	return nil
}

// kinds are how user-data begins that is no document of ours (cloud-init, "User data formats").
var kinds = []struct{ begin, name string }{
	{"#!", "a script"}, {"#include", "a list of addresses"}, {"## template:", "a template"}, {"#cloud-boothook", "a boot hook"},
	{"#part-handler", "a part handler"}, {"#cloud-config-archive", "an archive"}, {"Content-Type:", "several parts"},
	{"MIME-Version:", "several parts"}, {"\x1f\x8b", "a compressed document"},
}

// byteOrderMark begins what some editors write (Unicode 16.0, section 23.8), in UTF-8.
const byteOrderMark = "\ufeff"

func (f *Found) userData(data []byte) error {
	for _, k := range kinds {
		if bytes.HasPrefix(bytes.TrimPrefix(data, []byte(byteOrderMark)), []byte(k.begin)) {
			f.NotTaken = append(f.NotTaken, UserData+": "+k.name)
			return nil
		}
	}
	doc, err := document(data)
	if err != nil {
		return err
	}
	for _, p := range doc.pairs {
		if p.key != "spore" {
			f.NotTaken = append(f.NotTaken, named(UserData+": ", p.key))
			continue
		}
		own, err := p.mapping()
		if err != nil {
			return err
		}
		for _, p := range own.pairs {
			switch p.key {
			case "node":
				f.Node, err = p.node()
			case "bundle":
				f.Bundle, err = p.bytes()
			default:
				f.NotTaken = append(f.NotTaken, named(UserData+": spore.", p.key))
			}
			if err != nil {
				return fmt.Errorf("spore.%s: %w", p.key, err)
			}
		}
	}
	return nil
}

// Bounds of a document: levels, values in all, and the marks between them.
const (
	maxDepth  = 24
	maxValues = 20_000
	// maxMarks bounds what the parser is given. It takes up to 400 bytes of memory for a mark, and 1 MiB of marks would
	// take more than a small machine can spare.
	maxMarks = 100_000
	// maxTags bounds the directives %TAG: the parser compares each one with all before it.
	maxTags = 32
)

// marks counts what parts values in YAML, and more: line breaks (YAML 1.1, section 5.4, has those of Unicode), indicators
// of flow, and indicators of blocks before a blank. What is in a text counts, too.
func marks(data []byte) int {
	n := bytes.Count(data, []byte("\u0085")) + bytes.Count(data, []byte("\u2028")) + bytes.Count(data, []byte("\u2029"))
	for i, c := range data {
		switch c {
		case '\n', '\r', ',', '[', '{':
			n++
		case '-', '?', ':':
			if i+1 < len(data) && (data[i+1] == ' ' || data[i+1] == '\t') {
				n++
			}
		}
	}
	return n
}

// mapping is a mapping whose keys are texts, in their order.
type mapping struct{ pairs []pair }

type pair struct {
	key   string
	value *yaml.Node
}

// document parses a document that is a mapping. It expands no alias: a short text could have more values than memory.
func document(data []byte) (mapping, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return mapping{}, errors.New("it is in UTF-16; save it in UTF-8")
	case bytes.ContainsRune(data, 0):
		return mapping{}, errors.New("it is no text")
	case marks(data) > maxMarks:
		return mapping{}, fmt.Errorf("it has more than %d lines, commas and brackets", maxMarks)
	case bytes.Count(data, []byte("%TAG")) > maxTags:
		return mapping{}, fmt.Errorf("it has %%TAG more than %d times", maxTags)
	}
	var root, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	switch err := documents.Decode(&root); {
	case errors.Is(err, io.EOF):
		return mapping{}, nil // Comments alone.
	case err != nil:
		return mapping{}, fmt.Errorf("it is no YAML: %s", printable(err.Error(), 200))
	}
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		return mapping{}, errors.New("it goes on behind the end of the first document; write one")
	}
	values := 0
	if err := count(&root, 0, &values); err != nil {
		return mapping{}, err
	}
	return pair{value: root.Content[0]}.mapping()
}

// count bounds a document. An alias counts as one value, since it is never followed.
func count(n *yaml.Node, depth int, values *int) error {
	if *values++; *values > maxValues || depth > maxDepth {
		return fmt.Errorf("it has more than %d levels or %d values", maxDepth, maxValues)
	}
	for _, c := range n.Content {
		if err := count(c, depth+1, values); err != nil {
			return err
		}
	}
	return nil
}

var errAlias = errors.New("an alias is not followed; write the value itself")

func (p pair) mapping() (mapping, error) {
	var m mapping
	switch {
	case p.value.Kind == yaml.AliasNode:
		return m, errAlias
	case p.value.Kind == yaml.ScalarNode && p.value.Tag == "!!null":
		return m, nil
	case p.value.Kind != yaml.MappingNode:
		return m, errors.New("it is to be a mapping of keys to values")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(p.value.Content); i += 2 {
		k := p.value.Content[i]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			return m, errors.New("a key is to be a text")
		}
		if seen[k.Value] {
			return m, fmt.Errorf("the key %+.64q is there twice", k.Value)
		}
		seen[k.Value] = true
		m.pairs = append(m.pairs, pair{k.Value, p.value.Content[i+1]})
	}
	return m, nil
}

func (p pair) scalar() (string, error) {
	switch {
	case p.value.Kind == yaml.AliasNode:
		return "", errAlias
	case p.value.Kind != yaml.ScalarNode:
		return "", errors.New("it is to be one value")
	case p.value.Tag == "!!null":
		return "", nil
	}
	return p.value.Value, nil
}

func (p pair) instanceID() (string, error) {
	s, err := p.scalar()
	if err != nil {
		return "", err
	}
	return text(s, maxID)
}

func (p pair) hostname() (string, error) {
	s, err := p.scalar()
	if err != nil {
		return "", err
	}
	return hostname(s)
}

// node takes the name of a node: one DNS label of small letters, digits and hyphens, as from the ESP.
func (p pair) node() (string, error) {
	s, err := p.scalar()
	if err != nil {
		return "", err
	}
	if strings.Contains(s, ".") {
		return "", fmt.Errorf("%+.64q is not the name of a node", s)
	}
	return hostname(s)
}

// bytes takes a value in base64, with or without line breaks (RFC 4648, section 4).
func (p pair) bytes() ([]byte, error) {
	s, err := p.scalar()
	if err != nil || s == "" {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		return nil, errors.New("it is to be in base64, as `base64 FILE` writes it")
	}
	return data, nil
}

// items are the values of a list; one value counts as a list of it.
func (p pair) items() ([]pair, error) {
	switch p.value.Kind {
	case yaml.AliasNode:
		return nil, errAlias
	case yaml.SequenceNode:
		var out []pair
		for _, c := range p.value.Content {
			out = append(out, pair{p.key, c})
		}
		return out, nil
	case yaml.ScalarNode:
		if p.value.Tag == "!!null" {
			return nil, nil
		}
		return []pair{p}, nil
	}
	return nil, errors.New("it is to be a list")
}

// each has do look at the values of a list, one after the other, until one is an error.
func (p pair) each(do func(pair) error) error {
	items, err := p.items()
	for _, item := range items {
		if err := do(item); err != nil {
			return err
		}
	}
	return err
}

// text is a short printable text of at most limit bytes.
func text(s string, limit int) (string, error) {
	if s = strings.TrimSpace(s); len(s) > limit || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("%+.64q is not a text of at most %d ASCII characters", s, limit)
	}
	return s, nil
}

// hostname is a host name, with or without a domain (RFC 1123, section 2.1), in small letters.
func hostname(s string) (string, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	good := len(s) <= 253
	for label := range strings.SplitSeq(s, ".") {
		good = good && len(label) >= 1 && len(label) <= 63 && label[0] != '-' && label[len(label)-1] != '-'
		good = good && !strings.ContainsFunc(label, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
	}
	if s == "" {
		return "", nil
	}
	if !good {
		return "", fmt.Errorf("%+.64q is not a host name", s)
	}
	return s, nil
}

// named is the name of a key for the status and the console, without what a terminal would obey.
func named(prefix, key string) string { return prefix + printable(key, maxText) }

// printable is at most limit bytes of a text in ASCII; what a terminal may obey, and letters that look like others, are
// question marks.
func printable(s string, limit int) string {
	s = s[:min(len(s), limit*utf8.UTFMax)] // A key may have 1 MiB, and be named for each key below it.
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), limit)]
}

// short bounds a list of names.
func short(names []string) []string {
	if len(names) <= maxNotTaken {
		return names
	}
	return append(names[:maxNotTaken:maxNotTaken], fmt.Sprintf("and %d more", len(names)-maxNotTaken))
}
