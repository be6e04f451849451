// Package cluster is the model of a cluster: it loads the folder that a user edits, finds everything that is wrong with
// it in one run, and compiles it into what the nodes read.
//
// Load parses strictly and keeps the position of every value; Validate checks what the values mean; Compile makes the
// cluster part of an image. Nothing here asks a machine, a network or a clock.
package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/manifests"
	"spore/cluster/overlay"
	"spore/cluster/programs"
	"spore/cluster/regular"
	"spore/cluster/role"
	"spore/cluster/spec"
	"spore/cluster/units"
	"spore/services"
)

// Names in the configuration folder.
const (
	clusterFile = "cluster.yaml"
	imageFile   = "image.yaml"
	servicesDir = "services"
	nodesDir    = "nodes"
	// accountsFile has ids of users and groups; `spore lock` writes it, and builder/accounts reads it.
	accountsFile = "accounts.yaml"
	// revokedFile is what `spore keys revoke` makes.
	revokedFile = "dbx.auth"
)

// What a signed write of a variable of the firmware has behind its time and the length of its signature (UEFI 2.10,
// section 8.2.2): EFI_CERT_TYPE_PKCS7_GUID as it is stored.
const (
	revokedKind = 24
	signedWrite = "\x9d\xd2\xaf\x4a\xdf\x68\xee\x49\x8a\xa9\x34\x7d\x37\x56\x65\xa7"
	maxRevoked  = 64 << 10
)

// Bounds on what is read. 10,000 nodes with every field need 4 MiB of cluster.yaml.
const (
	maxFileSize  = 32 << 20
	maxNodeFiles = 100_000
)

// Config is a configuration folder in Go form.
type Config struct {
	Cluster   spec.Cluster
	Services  spec.Services
	NodeFiles []spec.NodeFile
	Image     spec.Image
	// Overlay and Units are the files and systemd units of the user's own, which the root of the image has.
	Overlay Overlay
	Units   []units.File
	// Public is the public half of the cluster's keys, which is not part of the folder; Compile lays it out.
	Public Public
	// Revoked is the signed write of dbx with the images that machines start no more; empty when none are.
	Revoked []byte
	// Accounts is the file accounts.yaml as it is; nil without one.
	Accounts []byte
	// Roles are the roles of the user's own, in the order of their names.
	Roles []*role.Definition
	// Manifests are the objects of manifests/ that the masters apply, in the order of the files.
	Manifests []*manifests.Document
	// Programs are the programs of the user's own, by name.
	Programs []programs.Entry

	cluster, image *source
	// list has the services; nil where the folder has no roles of its own.
	list *services.List
	// clashes are why some roles are not in it.
	clashes services.Clashes
	// services holds the files of services/ by service name.
	services map[string]*source
	// nodeFiles runs parallel to NodeFiles.
	nodeFiles []*source
	// programs runs parallel to Programs.
	programs []*source
	// unusedPrograms are paths in programs/ that none of them names.
	unusedPrograms []string
	// files says what is wrong with the files of the folder that settings name, by path.
	files map[string]error
	// roleFiles runs parallel to Roles.
	roleFiles []*source
	// manifestFiles holds the files of manifests/ as they are, by path.
	manifestFiles map[string][]byte
	// alertFiles holds the files of services/alerts/ as they are, by path.
	alertFiles map[string][]byte
}

// Public is what the nodes are told of the cluster's keys.
type Public struct {
	// SigningKeys are the Ed25519 public keys that may sign bundles, in base64.
	SigningKeys []string
	// Files are certificates and public keys by their path in the cluster part.
	Files map[string][]byte
}

// List is the list of services that the configuration knows: ours, and behind them its own.
func (c *Config) List() *services.List {
	if c.list == nil {
		return services.Ours()
	}
	return c.list
}

// Source returns the files of the cluster part as the user wrote them, by their path in the folder: cluster.yaml, the
// files of the enabled services, the node files and the manifests. image.yaml is not among them.
func (c *Config) Source() map[string][]byte {
	out := map[string][]byte{}
	if c.cluster != nil {
		out[clusterFile] = c.cluster.data
	}
	for name, s := range c.services {
		if slices.Contains(c.Cluster.Services, name) {
			out[s.path] = s.data
		}
	}
	for _, s := range c.nodeFiles {
		out[s.path] = s.data
	}
	c.roleSource(out)
	maps.Copy(out, c.manifestFiles)
	maps.Copy(out, c.alertFiles)
	return out
}

// loader carries the report through one Load.
type loader struct {
	fsys   fs.FS
	report check.Report
}

func (l *loader) add(sev check.Severity, file string, line, column int, format string, args ...any) {
	l.report = append(l.report, check.Problem{Severity: sev, File: file, Line: line, Column: column, Message: fmt.Sprintf(format, args...)})
}

// LoadDir is Load for a directory.
func LoadDir(dir string) (*Config, check.Report) { return Load(regular.Folder(dir)) }

// Load reads and parses a configuration folder. It goes on after an error, so that the report names all of them; the
// Config then holds what could be read, enough for Validate to find the rest.
func Load(fsys fs.FS) (*Config, check.Report) {
	l := &loader{fsys: fsys}
	c := &Config{services: map[string]*source{}}
	l.topLevel()
	c.cluster = l.file(clusterFile, &c.Cluster)
	if _, err := fs.Stat(fsys, imageFile); !errors.Is(err, fs.ErrNotExist) {
		c.image = l.file(imageFile, &c.Image)
	}
	c.Image.FillDefaults()
	l.loadRoles(c)
	l.loadServices(c)
	l.loadAlerts(c)
	l.statFiles(c)
	l.loadNodes(c)
	l.loadPrograms(c)
	c.Revoked = l.revoked()
	c.Accounts = l.accounts()
	l.loadManifests(c)
	c.Overlay = l.overlay()
	c.Units = l.units()
	return c, l.report.Sorted()
}

// revoked reads the images that are revoked. Whether the key exchange key of the machines signed them shows on the
// machines.
func (l *loader) revoked() []byte {
	f, err := l.fsys.Open(revokedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		l.add(check.Error, revokedFile, 1, 1, "cannot be read: %v", plain(err))
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRevoked+1))
	switch {
	case err != nil:
		l.add(check.Error, revokedFile, 1, 1, "cannot be read: %v", plain(err))
	case len(data) > maxRevoked || len(data) < revokedKind+len(signedWrite) || string(data[revokedKind:revokedKind+len(signedWrite)]) != signedWrite:
		l.add(check.Error, revokedFile, 1, 1, "this is not a signed write of dbx; make it with `spore keys revoke`")
	default:
		return data
	}
	return nil
}

// accounts reads the ids of users and groups, which only a build has a use for.
func (l *loader) accounts() []byte {
	data, err := l.read(accountsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		l.add(check.Error, accountsFile, 1, 1, "cannot be read: %v", plain(err))
		return nil
	}
	return data
}

// folders are those of the configuration folder that something reads.
var folders = []string{servicesDir, nodesDir, role.Dir, programsDir, overlay.Dir, units.Dir, manifestsDir}

// topLevel finds files of the folder whose names are nearly right.
func (l *loader) topLevel() {
	known := []string{clusterFile, imageFile, accountsFile, overlay.SettingsFile}
	for _, e := range l.dir(".") {
		switch name := e.Name(); {
		case !e.IsDir() && isYAML(name) && !slices.Contains(known, name):
			last := len(folders) - 1
			l.add(check.Error, name, 1, 1, "nothing reads this file; the folder holds %s, %s/ and %s/%s",
				strings.Join(known, ", "), strings.Join(folders[:last], "/, "), folders[last], check.Suggest(name, known))
		case e.IsDir() && !slices.Contains(folders, name):
			if hint := check.Suggest(name, folders); hint != "" {
				l.add(check.Error, name, 1, 1, "nothing reads this directory%s", hint)
			}
		}
	}
}

// dir lists a directory without hidden entries; one that does not exist is empty.
func (l *loader) dir(name string) []fs.DirEntry {
	entries, err := fs.ReadDir(l.fsys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.add(check.Error, name, 1, 1, "cannot be read: %v", plain(err))
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
}

func isYAML(name string) bool { ext := path.Ext(name); return ext == ".yaml" || ext == ".yml" }

// yamlFiles lists the YAML files of a directory and reports names that would be passed over.
func (l *loader) yamlFiles(dir string) []string {
	var out []string
	for _, e := range l.dir(dir) {
		name := path.Join(dir, e.Name())
		switch {
		case path.Ext(name) == ".yml":
			l.add(check.Error, name, 1, 1, "files end in .yaml; rename it to %s", strings.TrimSuffix(e.Name(), ".yml")+".yaml")
		case name == alertsDir && e.IsDir():
		case e.IsDir():
			l.add(check.Error, name, 1, 1, "is a directory; %s/ holds files only", dir)
		case path.Ext(name) == ".yaml":
			out = append(out, name)
		}
	}
	return out
}

func (l *loader) loadServices(c *Config) {
	known, files := c.List().Names(), l.yamlFiles(servicesDir)
	for _, name := range files {
		if service := serviceOf(name); !slices.Contains(known, service) {
			l.add(check.Error, name, 1, 1, "there is no service %q%s", check.Clip(service), orList(check.Suggest(service, known), "services", known))
		}
	}
	for _, s := range c.List().All() { // their settings are in the order of the list
		name := path.Join(servicesDir, s.Name+".yaml")
		if !slices.Contains(files, name) {
			continue
		}
		settings := s.Settings()
		c.services[s.Name] = l.file(name, settings)
		if slices.Contains(c.Cluster.Services, s.Name) && !c.services[s.Name].broken {
			c.Services.Set(settings)
		}
	}
}

// statFiles looks whether the files that settings name are there; the check of the service says so.
func (l *loader) statFiles(c *Config) {
	c.files = map[string]error{}
	for _, s := range c.List().All() {
		if s.Files == nil || !c.Services.Has(s.Name) {
			continue
		}
		for _, name := range s.Files(c.Services) {
			if !fs.ValidPath(name) {
				continue
			}
			info, err := fs.Stat(l.fsys, name)
			if err == nil {
				err = regular.Check(info)
			}
			c.files[name] = plain(err)
		}
	}
}

func (l *loader) loadNodes(c *Config) {
	names := l.yamlFiles(nodesDir)
	if len(names) > maxNodeFiles {
		l.add(check.Error, nodesDir, 1, 1, "holds %d files; at most %d are read", len(names), maxNodeFiles)
		names = names[:maxNodeFiles]
	}
	for _, name := range names {
		var n spec.NodeFile
		s := l.file(name, &n)
		c.NodeFiles = append(c.NodeFiles, n)
		c.nodeFiles = append(c.nodeFiles, s)
	}
}

// free are settings whose keys no Go type has: they are decoded as they are.
type free interface{ Free() *map[string]any }

// file reads one file into a spec type.
func (l *loader) file(name string, into any) *source {
	s := &source{path: name, faults: map[[2]int]bool{}}
	data, err := l.read(name)
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrNotExist) && name == clusterFile {
			hint = "; name the folder that holds it, or make one with `spore init`"
		}
		if kind := regular.KindError(""); errors.As(err, &kind) {
			hint = "; put a regular file there, or a link to one"
		}
		l.add(check.Error, name, 1, 1, "cannot be read: %v%s", plain(err), hint)
		s.broken = true
		return s
	}
	s.data = data
	defer l.literals(s)
	if f := s.parse(); f != nil {
		l.add(check.Error, name, f.Line, f.Column, "%s", f.Message)
		s.broken = true
		return s
	}
	d := &decoder{report: func(line, column int, message string) {
		s.faults[[2]int{line, column}] = true
		l.add(check.Error, name, line, column, "%s", message)
	}}
	if settings, ok := into.(free); ok {
		into = settings.Free()
	}
	v := reflect.ValueOf(into).Elem()
	if s.root == nil && v.Kind() == reflect.Struct {
		for _, f := range fields(v.Type()) {
			if f.required {
				l.add(check.Error, name, 1, 1, "the file is empty; it needs at least the key %q", f.name)
			}
		}
	}
	if s.root != nil {
		d.value(s.root, v, path.Base(name))
	}
	return s
}

// literals reports the secrets in a file, but not those that the decoder found in the same line.
func (l *loader) literals(s *source) {
	told := map[int]bool{}
	for _, p := range l.report {
		if p.File == s.path && strings.Contains(p.Message, "literal secret") {
			told[p.Line] = true
		}
	}
	for _, f := range literalSecrets(s.data, bundleAdvice, func(string) bool { return false }) {
		if !told[f.Line] {
			l.add(check.Error, s.path, f.Line, f.Column, "%s", f.Message)
		}
	}
}

func (l *loader) read(name string) ([]byte, error) {
	info, err := fs.Stat(l.fsys, name)
	if err != nil {
		return nil, err
	}
	if err := regular.Check(info); err != nil {
		return nil, err
	}
	f, err := l.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("it is larger than %d MiB", maxFileSize>>20)
	}
	return data, nil
}

// plain drops the operation and path that the place of the problem says already.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// orList is the hint, or a list of what is known where there is none.
func orList(hint, what string, known []string) string {
	if hint != "" {
		return hint
	}
	return "; " + what + ": " + strings.Join(known, ", ")
}
