//go:build integration

package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/explainfile"
	"spore/builder/lock"
	"spore/builder/manifest"
)

// smallCluster is a configuration with next to nothing, for what is in every image.
const smallCluster = `name: small
id: 0d6c5cf6-9f0f-4d6b-9d6b-0d3c8a3f7a51
domain: small.example
network:
  nodeSubnets: [10.77.0.0/24]
  gateways: [10.77.0.2]
  nameservers: [10.77.0.3]
services: []
nodes:
  - name: node-01
    macs: ["52:54:00:77:00:0c"]
    ips: [10.77.0.12]
    roles: []
`

// toolArchive has a script for a shell and data.
func toolArchive(t *testing.T, interpreter string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range []struct {
		name, data string
		mode       int64
	}{
		{"tool-1.0/bin/tool", "#!" + interpreter + "\necho tool\n", 0o755}, {"tool-1.0/share/words", "words\n", 0o644},
		{"tool-1.0/README", "not taken\n", 0o644},
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: f.mode,
			Size: int64(len(f.data))}))
		_, err := w.Write([]byte(f.data))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(data), 0o644))
	}
}

// ownPrograms are programs/ of a configuration: a folder and a module that are compiled, and an archive.
func ownPrograms(t *testing.T, archive []byte) map[string]string {
	sum := sha256.Sum256(archive)
	return map[string]string{
		"cluster.yaml": smallCluster,
		"image.yaml":   "suite: trixie\n",
		"programs/gateway.yaml": "description: Says hello\nfolder: ./gateway\nversion: 1.4.0\nlicence: " +
			"LicenseRef-Acme\nlinks: [/usr/bin/gw]\n",
		"programs/gateway/go.mod":     "module example.org/gateway\n\ngo 1.26.0\n",
		"programs/gateway/main.go":    "package main\n\nfunc main() { println(\"hello from the gateway\") }\n",
		"programs/gateway/.git/index": "not of the program",
		"programs/tool.yaml": "archive:\n  path: ./tool.tar.gz\n  sha256: " + hex.EncodeToString(sum[:]) + "\n  files:\n" +
			"    tool-1.0/bin/tool: /usr/bin/tool\n    tool-1.0/share/words: /opt/tool/words\nlicence: MIT\n",
		"programs/tool.tar.gz": string(archive),
		"programs/sumcheck.yaml": "go:\n  module: golang.org/x/mod\n  version: v0.41.0\n  package: ./gosumcheck\n" +
			"  sum: \"h1:qJmnOUb4YB+FsEuM3HcWucdZASCPGhsX6uljO6pog0c=\"\nlicence: BSD-3-Clause\n",
	}
}

// TestProgramsOfTheUsersOwnAreInTheImage builds an image with a program from a folder, a module and files from an
// archive, looks into its root and into what is said of it, and does the same from another folder and without a
// network.
func TestProgramsOfTheUsersOwnAreInTheImage(t *testing.T) {
	repo, spore := buildSpore(t)
	config, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	writeAll(t, config, ownPrograms(t, toolArchive(t, "/bin/sh")))
	first := build(t, spore, repo, config, out)
	disk := openImage(t, filepath.Join(out, "spore.img"))

	t.Run("the files", func(t *testing.T) {
		for p, mode := range map[string]string{"/usr/bin/gateway": "0755", "/usr/bin/tool": "0755", "/opt/tool/words": "0644"} {
			a, err := explainfile.Explain(disk, p, false)
			require.NoError(t, err)
			require.NotNil(t, a.File, p)
			require.Equal(t, "file", a.File.Type)
			require.Equal(t, mode, a.File.Mode, p)
			require.Equal(t, "root root", a.File.User+" "+a.File.Group)
		}
		link, err := explainfile.Explain(disk, "/usr/bin/gw", true)
		require.NoError(t, err)
		require.Equal(t, "/usr/bin/gateway", link.File.Path)
		require.Nil(t, disk.Root.Lstat("/usr/bin/README"))
		program, err := disk.Root.ReadFile("/usr/bin/gateway", 64<<20)
		require.NoError(t, err)
		run := filepath.Join(t.TempDir(), "gateway")
		require.NoError(t, os.WriteFile(run, program, 0o755))
		said, err := exec.Command(run).CombinedOutput()
		require.NoError(t, err)
		require.Equal(t, "hello from the gateway\n", string(said))
	})
	t.Run("explain-file", func(t *testing.T) {
		said, code := command(t, spore, "explain-file", out, "/usr/bin/gateway")
		require.Zero(t, code)
		require.Regexp(t, `from +the configuration: programs/gateway\.yaml\n`, said)
		require.Regexp(t, `payload +programs/gateway 1\.4\.0, SHA-256 [0-9a-f]{64}\n`, said)
		said, code = command(t, spore, "explain-file", out, "/opt/tool/words")
		require.Zero(t, code)
		require.Regexp(t, `from +the configuration: programs/tool\.yaml\n`, said)
	})
	m := readManifest(t, filepath.Join(out, "spore.manifest.json"))
	t.Run("manifest and bills", func(t *testing.T) {
		of := map[string]manifest.Payload{}
		for _, p := range m.Payloads {
			of[p.Path] = p
		}
		require.Equal(t, "LicenseRef-Acme", of["/usr/bin/gateway"].License)
		require.Equal(t, "example.org/gateway", of["/usr/bin/gateway"].Main.Path)
		require.NotEmpty(t, of["/usr/bin/gateway"].GoVersion)
		require.Equal(t, "programs/tool.yaml", of["/usr/bin/tool"].Configured)
		for _, p := range m.Files {
			if p.Path == "/usr/bin/gateway" {
				require.Equal(t, "configuration:programs/gateway.yaml", p.Origin)
			}
		}
		cdx, err := os.ReadFile(first.SBOM)
		require.NoError(t, err)
		var bill struct {
			Components []struct {
				Ref      string `json:"bom-ref"`
				Name     string
				Version  string
				URL      string `json:"purl"`
				Licenses []struct{ Expression string }
				Hashes   []struct{ Content string }
			}
		}
		require.NoError(t, json.Unmarshal(cdx, &bill))
		found := 0
		for _, c := range bill.Components {
			switch c.Ref {
			case "payload:programs/gateway":
				require.Equal(t, "gateway 1.4.0 LicenseRef-Acme", c.Name+" "+c.Version+" "+c.Licenses[0].Expression)
				require.Equal(t, of["/usr/bin/gateway"].SHA256, c.Hashes[0].Content)
				found++
			case "payload:programs/sumcheck":
				require.Equal(t, "sumcheck v0.41.0 pkg:golang/golang.org/x/mod@v0.41.0", c.Name+" "+c.Version+" "+c.URL)
				found++
			case "payload:programs/tool/usr/bin/tool":
				require.Equal(t, "tool/usr/bin/tool MIT", c.Name+" "+c.Licenses[0].Expression)
				found++
			}
		}
		require.Equal(t, 3, found)
		spdx, err := os.ReadFile(first.SPDX)
		require.NoError(t, err)
		require.Contains(t, string(spdx), `"licenseId": "LicenseRef-Acme"`)
	})
	t.Run("provenance and lock", func(t *testing.T) {
		requireProvenanceOfPrograms(t, first.Provenance, config)
		locked, err := lock.Read(first.Lock)
		require.NoError(t, err)
		of := map[string]lock.Program{}
		for _, p := range locked.Programs {
			of[p.Name] = p
		}
		require.Equal(t, "/usr/bin/gateway", of["programs/gateway"].Path)
		require.NotEmpty(t, of["programs/gateway"].Inputs)
		require.NotEmpty(t, of["programs/tool/opt/tool/words"].Inputs)
		require.NoError(t, os.WriteFile(filepath.Join(config, lock.Name), mustRead(t, first.Lock), 0o644))
		run(t, exec.Command(spore, "build", config, "-o", filepath.Join(t.TempDir(), "out"), "--source", repo, "--format",
			"uki", "--locked"))
		require.NoError(t, os.Remove(filepath.Join(config, lock.Name)))
	})
	t.Run("another folder, without a network", func(t *testing.T) {
		other, out := filepath.Join(t.TempDir(), "elsewhere"), filepath.Join(t.TempDir(), "out")
		writeAll(t, other, ownPrograms(t, toolArchive(t, "/bin/sh")))
		cmd := exec.Command(spore, "build", other, "-o", out, "--source", repo, "--offline", "--json")
		cmd.Env = append(os.Environ(), "GOPROXY=off")
		text, err := cmd.Output()
		require.NoError(t, err)
		require.Contains(t, string(text), `"rootHash":"`+first.RootHash+`"`)
	})
	t.Run("what cannot be in a root", func(t *testing.T) {
		for name, tc := range map[string]struct {
			change map[string]string
			want   string
		}{
			"over a file of a package": {map[string]string{"programs/gateway.yaml": "folder: ./gateway\npath: /usr/bin/bash\n"},
				"programs/gateway.yaml: /usr/bin/bash is there already, from deb:bash_"},
			"over the agent": {map[string]string{"programs/gateway.yaml": "folder: ./gateway\nlinks: [/usr/bin/spore-agent]\n"},
				"programs/gateway.yaml:2:9: error: /usr/bin/spore-agent cannot be a program's (the machine is run by it); " +
					"write another path"},
			"a script without its interpreter": {ownPrograms(t, toolArchive(t, "/usr/bin/lua")),
				"programs/tool.yaml: /usr/bin/tool is started by /usr/bin/lua, which is not in the image; add the Debian " +
					"package that has it to packages in image.yaml"},
		} {
			bad := t.TempDir()
			writeAll(t, bad, ownPrograms(t, toolArchive(t, "/bin/sh")))
			writeAll(t, bad, tc.change)
			said, err := exec.Command(spore, "build", bad, "-o", filepath.Join(t.TempDir(), "out"), "--source", repo,
				"--format", "uki").CombinedOutput()
			require.Error(t, err, name)
			require.Contains(t, string(said), tc.want, name)
		}
	})
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

// requireProvenanceOfPrograms looks for the files of programs/ and for what the programs are made of.
func requireProvenanceOfPrograms(t *testing.T, file, config string) {
	t.Helper()
	text := string(mustRead(t, file))
	for _, name := range []string{"programs/gateway.yaml", "programs/tool.yaml"} {
		sum := sha256.Sum256(mustRead(t, filepath.Join(config, name)))
		require.Contains(t, text, name)
		require.Contains(t, text, hex.EncodeToString(sum[:]), name)
	}
	archive := sha256.Sum256(mustRead(t, filepath.Join(config, "programs", "tool.tar.gz")))
	require.Contains(t, text, `"name": "configuration: programs/tool.tar.gz"`)
	require.Contains(t, text, hex.EncodeToString(archive[:]))

	list := ""
	for _, name := range []string{"go.mod", "main.go"} {
		sum := sha256.Sum256(mustRead(t, filepath.Join(config, "programs", "gateway", name)))
		list += fmt.Sprintf("%x  %s\n", sum, name)
	}
	folder := sha256.Sum256([]byte(list))
	require.Contains(t, text, `"name": "configuration: programs/gateway"`)
	require.Contains(t, text, `"dirHash": "`+hex.EncodeToString(folder[:])+`"`)
	require.NotContains(t, strings.ToLower(text), "payloads/programs")
	require.Contains(t, text, `"uri": "pkg:golang/golang.org/x/mod@v0.41.0"`)
}
