//go:build integration

package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/inspect"
	"spore/builder/image"
	"spore/builder/recipe"
	"spore/builder/tree"
	"spore/builder/uki"
	"spore/pki"
	"spore/pki/vault"
	"spore/services"
	"spore/test/leak"
)

const passphrase = "correct horse battery staple"

// operator is a folder with every key, certificate and secret that a cluster can have, and an image that was built with
// it.
type operator struct {
	repo, spore, work string
	// configs is the configuration of the image, keys the folder.
	configs, keys string
	tree          *pki.Tree
	// given is a password that the operator brought, bundle the file of edge-01's bundle.
	given, bundle string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{work: t.TempDir(), given: "a password of the operator's own"}
	o.repo, o.spore = buildSpore(t)
	path := func(name string) string { return filepath.Join(o.work, name) }
	require.NoError(t, os.WriteFile(path("pass"), []byte(passphrase), 0o600))
	require.NoError(t, os.WriteFile(path("given"), []byte(o.given), 0o600))
	o.configs = path("configs")
	require.NoError(t, os.CopyFS(o.configs, os.DirFS(filepath.Join(o.repo, "examples", "edge"))))

	// The keys are those of a cluster with every service, which has the id of the one that the image is for.
	every := path("every")
	require.NoError(t, os.CopyFS(every, os.DirFS(filepath.Join(o.repo, "cluster/testdata/six-nodes"))))
	edit(t, filepath.Join(every, "cluster.yaml"), clusterID(t, every), clusterID(t, o.configs))
	edit(t, filepath.Join(every, "cluster.yaml"), "mqtt, dns]", "mqtt, dns, metrics, logs, dashboard]")
	require.NoError(t, os.WriteFile(filepath.Join(every, "services", "dashboard.yaml"), nil, 0o644))
	// Alertmanagers have certificates where two of them talk to each other.
	edit(t, filepath.Join(every, "cluster.yaml"), "roles: [worker]", "roles: [worker, metrics-store, logs-store, alerts, dashboard]")
	edit(t, filepath.Join(every, "cluster.yaml"), "roles: [kafka-broker]", "roles: [kafka-broker, metrics-store, alerts]")
	observed := os.DirFS(filepath.Join(o.repo, "examples", "observed", "services"))
	for _, name := range []string{"metrics.yaml", "logs.yaml", "alerts/press.yaml"} {
		text, err := fs.ReadFile(observed, name)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(every, "services", name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(every, "services", name), text, 0o644))
	}
	o.keys = path("keys")
	pass := []string{"--dir", o.keys, "--passphrase-file", path("pass")}
	run(t, exec.Command(o.spore, append([]string{"pki", "init", every, "--secret", "mqtt-password-sensor=" + path("given")}, pass...)...))
	o.bundle = path("edge-01.bundle")
	run(t, exec.Command(o.spore, append([]string{"pki", "bundle", every, "--node", "edge-01", "-o", o.bundle}, pass...)...))

	v, err := vault.Open(o.keys, vault.Keys{Passphrase: func(bool) (string, error) { return passphrase, nil }})
	require.NoError(t, err)
	v.Close()
	o.tree = v.Tree
	for _, row := range pki.Authorities(services.Ours()) {
		require.Contains(t, o.tree.Authorities, row.Name)
	}
	return o
}

func clusterID(t *testing.T, configs string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(configs, "cluster.yaml"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			return strings.TrimSpace(id)
		}
	}
	require.Fail(t, "cluster.yaml has no id")
	return ""
}

// edit replaces the one place of a text in a file.
func edit(t *testing.T, file, old, with string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), old), "%s in %s", old, file)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), old, with, 1)), 0o644))
}

// searcher knows every secret of the folder.
func (o *operator) searcher(t *testing.T) *leak.Searcher {
	t.Helper()
	s := leak.New()
	add := func(name, value string) { require.NoError(t, s.Add(name, value)) }
	add("the folder's passphrase", passphrase)
	add("the password that was brought", o.given)
	n := 0
	for name, a := range o.tree.Authorities {
		add("the key of "+name, string(a.Current.Key))
		n++
	}
	for id, l := range o.tree.Leaves {
		add("the key of "+id, string(l.Key))
		n++
	}
	for id, secret := range o.tree.Secrets {
		add("the secret "+id, string(secret.Value))
		n++
	}
	require.Greater(t, n, 60)
	t.Logf("%d secrets, %d strings", n, s.Len())
	return s
}

// parts unpacks an image and returns all files that are in it or beside it, by names that say where they are.
func (o *operator) parts(t *testing.T, out string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	disk := filepath.Join(out, "spore.img")
	files := map[string]string{}
	for _, name := range []string{"spore.img", "spore.efi", "spore.manifest.json", "spore.cdx.json", "spore.spdx.json", "spore.provenance.json"} {
		files[name] = filepath.Join(out, name)
	}
	s, err := inspect.Read(disk)
	require.NoError(t, err)
	for name, part := range map[string]*image.Filesystem{"root": s.Image.Root, "cluster part": s.Image.Cluster} {
		cut(t, disk, part.Offset, part.Size, filepath.Join(dir, name+".squashfs"))
		args := []string{"-no-progress", "-processors", "2", "-d", filepath.Join(dir, name), filepath.Join(dir, name+".squashfs")}
		if os.Geteuid() != 0 {
			args = append([]string{"-user-xattrs"}, args...)
		}
		run(t, exec.Command("unsquashfs", args...))
		require.NoError(t, os.Remove(filepath.Join(dir, name+".squashfs")))
		addTree(t, files, name, filepath.Join(dir, name))
	}
	i := slices.IndexFunc(s.Image.Partitions, func(p image.Partition) bool { return p.Type == image.TypeESP })
	esp := s.Image.Partitions[i]
	cut(t, disk, esp.Offset, esp.Size, filepath.Join(dir, "esp.img"))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "esp"), 0o755))
	run(t, exec.Command("mcopy", "-s", "-n", "-i", filepath.Join(dir, "esp.img"), "::/", filepath.Join(dir, "esp")))
	addTree(t, files, "esp", filepath.Join(dir, "esp"))
	for name, path := range maps.Clone(files) {
		if strings.HasSuffix(strings.ToLower(name), ".efi") {
			unpackUKI(t, files, name, path, t.TempDir())
		}
	}
	return files
}

// cut copies a part of a file, and keeps its holes.
func cut(t *testing.T, file string, offset, size int64, to string) {
	t.Helper()
	run(t, exec.Command("dd", "if="+file, "of="+to, "bs=1M", "iflag=skip_bytes,count_bytes", "conv=sparse", fmt.Sprintf("skip=%d", offset), fmt.Sprintf("count=%d", size)))
	require.NoError(t, os.Truncate(to, size))
}

func addTree(t *testing.T, files map[string]string, name, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files[name+":"+strings.TrimPrefix(p, dir)] = p
		}
		return err
	}))
}

// unpackUKI adds the sections of a UKI, its initramfs unpacked. Boot loaders have sections too.
func unpackUKI(t *testing.T, files map[string]string, name, path, dir string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	info, err := uki.Inspect(bytes.NewReader(data))
	if err != nil {
		return
	}
	for _, s := range info.Sections {
		section := data[s.Offset:min(int64(len(data)), int64(s.Offset)+int64(min(s.RawSize, s.VirtualSize)))]
		if s.Name == ".initrd" {
			section = unpackInitramfs(t, section)
		}
		to := filepath.Join(dir, s.Name)
		require.NoError(t, os.WriteFile(to, section, 0o600))
		files[name+":"+s.Name] = to
	}
}

// unpackInitramfs decompresses the archives of an initramfs, one behind the other with zeros between.
func unpackInitramfs(t *testing.T, data []byte) []byte {
	t.Helper()
	const magic = 0xfd2fb528 // RFC 8878, section 3.1.1
	var out bytes.Buffer
	at := bytes.Index(data, binary.LittleEndian.AppendUint32(nil, magic))
	require.GreaterOrEqual(t, at, 0)
	out.Write(data[:at])
	d, err := zstd.NewReader(bytes.NewReader(bytes.TrimRight(data[at:], "\x00")))
	require.NoError(t, err)
	defer d.Close()
	_, err = io.Copy(&out, d)
	require.NoError(t, err)
	return out.Bytes()
}

// known is what looks like a secret and is none, by file and text.
var known = map[string]string{
	// github.com/prometheus/exporter-toolkit, web/handler.go: what the password of a user who is not there is compared
	// with, so that nobody learns from the time it takes who is.
	"root:/usr/bin/coredns":     "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi",
	"root:/usr/bin/cluster-dns": "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi",
}

func isKnown(t *testing.T, name, path string, find leak.Find) bool {
	t.Helper()
	text, ok := known[name]
	if !ok {
		return false
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	there := make([]byte, len(text))
	_, err = f.ReadAt(there, find.Offset)
	return err == nil && string(there) == text
}

// search returns what is found in files, as lines.
func search(t *testing.T, s *leak.Searcher, files map[string]string) []string {
	t.Helper()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := os.Open(files[name])
		require.NoError(t, err)
		finds, err := s.Search(f)
		f.Close()
		require.NoError(t, err)
		for _, find := range finds {
			if isKnown(t, name, files[name], find) {
				continue
			}
			out = append(out, name+": "+find.String())
		}
	}
	return out
}

func (o *operator) build(t *testing.T, configs, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	run(t, exec.Command(o.spore, "build", configs, "-o", out, "--source", source, "--pki", o.keys, "--format", "disk,uki"))
	return out
}

func TestTheImageHoldsNoSecret(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	s := o.searcher(t)
	out := o.build(t, o.configs, o.repo)
	files := o.parts(t, out)
	require.Greater(t, len(files), 1000)
	require.Empty(t, search(t, s, files))
	for _, name := range []string{"shadow", "gshadow"} {
		requireLocked(t, files["root:/etc/"+name], name)
	}

	t.Run("the search reaches every part", func(t *testing.T) {
		marks := leak.New()
		for _, text := range []string{"PRETTY_NAME=", "edge-01.plant.example", "etc/spore/stage1.json", "roothash=", "Spore MQTT CA"} {
			require.NoError(t, marks.Add(text, text))
		}
		found := strings.Join(search(t, marks, files), "\n")
		for _, want := range []string{
			`(?m)^root:/usr/lib/os-release: PRETTY_NAME=`, `(?m)^cluster part:/\S+: edge-01.plant.example`, `(?m)^spore.efi:.initrd: etc/spore/stage1.json`,
			`(?m)^esp:/\S+\.efi:.initrd: etc/spore/stage1.json`, `(?m)^spore.efi:.cmdline: roothash=`,
		} {
			require.Regexp(t, want, found)
		}
		// What is public of the folder is there: the image was built with it.
		trusted, err := os.ReadFile(files["cluster part:/"+pki.PublicDir+"/mqtt.crt"])
		require.NoError(t, err)
		require.Equal(t, o.tree.Authorities["mqtt"].Current.Certificate, string(trusted))
	})

	t.Run("units of packages take nothing from firmware", func(t *testing.T) { requireShut(t, files) })

	password := string(o.tree.Secrets["mqtt-password/mqtt-password-operator"].Value)
	planted := func(t *testing.T, out string, wants ...string) {
		t.Helper()
		finds := strings.Join(search(t, s, o.parts(t, out)), "\n")
		for _, want := range wants {
			require.Regexp(t, want, finds)
		}
		require.NotContains(t, finds, password, "what is found is not quoted")
	}
	t.Run("a password in the configuration is found", func(t *testing.T) {
		configs := filepath.Join(t.TempDir(), "configs")
		require.NoError(t, os.CopyFS(configs, os.DirFS(o.configs)))
		edit(t, filepath.Join(configs, "services/mqtt.yaml"), `topic: "commands/#"`, `topic: "`+password+`/#"`)
		edit(t, filepath.Join(configs, "image.yaml"), "formats: [disk, uki]", "formats: [disk, uki]\nkernelArguments: [leak="+password+"]")
		planted(t, o.build(t, configs, o.repo), `(?m)^cluster part:/\S+: the secret mqtt-password/mqtt-password-operator at byte \d+$`,
			`(?m)^spore.efi:.cmdline: the secret mqtt-password/mqtt-password-operator at byte \d+$`,
			`(?m)^spore.img: the secret mqtt-password/mqtt-password-operator at byte \d+$`)
	})
	t.Run("a key in a file of the root is found", func(t *testing.T) {
		source := filepath.Join(t.TempDir(), "source")
		require.NoError(t, copyTree(o.repo, source))
		require.NoError(t, os.WriteFile(filepath.Join(source, "overlay/usr/lib/modprobe.d/leak.conf"), []byte(o.tree.Leaves["node-admin"].Key), 0o644))
		planted(t, o.build(t, o.configs, source), `(?m)^root:/usr/lib/modprobe.d/leak.conf: the key of node-admin, line 1 of its PEM at byte \d+$`,
			`(?m)^root:/usr/lib/modprobe.d/leak.conf: a private key in PEM at byte \d+$`)
	})
	t.Run("a bundle on the ESP is found", func(t *testing.T) {
		s, err := inspect.Read(filepath.Join(out, "spore.img"))
		require.NoError(t, err)
		i := slices.IndexFunc(s.Image.Partitions, func(p image.Partition) bool { return p.Type == image.TypeESP })
		esp := fmt.Sprintf("%s@@%d", filepath.Join(out, "spore.img"), s.Image.Partitions[i].Offset)
		run(t, exec.Command("mcopy", "-i", esp, o.bundle, "::/leak"))
		planted(t, out, `(?m)^esp:/leak: the key of mqtt-server/edge-01, line 1 of its PEM at byte \d+$`)
	})
}

// requireShut makes sure that what comes from outside of the image is for our own units alone.
func requireShut(t *testing.T, files map[string]string) {
	t.Helper()
	units := tree.New()
	for name, file := range files {
		p, ok := strings.CutPrefix(name, "root:")
		if !ok || !strings.Contains(p, "/systemd/system/") {
			continue
		}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, units.WriteFile(p, data, 0o644, "image"))
	}
	taken, err := recipe.ImportedCredentials(units)
	require.NoError(t, err)
	require.NotEmpty(t, taken)
	for _, i := range taken {
		require.True(t, strings.HasPrefix(i.File, "/etc/systemd/system/spore-") || i.File == "/etc/systemd/system/cluster-detect.service", "%+v", i)
		require.Contains(t, i.Value, recipe.HandedOver, "%+v", i)
	}
}

// requireLocked makes sure that no account of shadow(5) or gshadow(5) has a password, not even an empty one.
func requireLocked(t *testing.T, path, name string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, ":")
		require.Greater(t, len(fields), 1, name)
		require.Contains(t, []string{"*", "!", "!*", "!!"}, fields[1], "%s: the password of %s", name, fields[0])
	}
}
