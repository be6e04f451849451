package cluster

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
)

// goodPrograms are one of each kind, with what lies beside them.
var goodPrograms = map[string]string{
	"programs/README.md": "for people\n",
	"programs/gateway.yaml": "folder: ./gateway\npackage: ./cmd/gateway\nlicence: MIT OR (Apache-2.0 WITH " +
		"LLVM-exception AND LicenseRef-Acme)\n",
	"programs/gateway/go.mod": "module example.org/gateway\n\ngo 1.26.0\n\nrequire example.org/text " +
		"v1.0.0\n\nreplace example.org/text => ./text\n",
	"programs/gateway/go.sum":           "",
	"programs/gateway/cmd/gateway/m.go": "package main\n",
	"programs/pinned.yaml":              "go: {module: example.org/pinned, version: v1.2.3}\n",
	"programs/pinned/go.mod":            "module pins\n\nrequire example.org/pinned v1.2.3\n",
	"programs/pinned/go.sum":            "example.org/pinned v1.2.3 " + moduleSum + "\n",
	"programs/script.yaml":              "file:\n  path: ./files/script.sh\n  sha256: " + someSum + "\npath: /opt/script\nmode: \"0750\"\nlinks: [/usr/bin/s]\n",
	"programs/files/script.sh":          "#!/bin/sh\n",
	"programs/tool.yaml":                "go:\n  module: example.org/tool\n  version: v1.2.3\n  sum: \"" + moduleSum + "\"\n",
	"programs/zip.yaml":                 "archive:\n  url: https://files.example.org/zip.zip\n  sha256: " + someSum + "\n  files:\n    bin/zip: /usr/bin/zip\n",
}

const moduleSum = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

var someSum = strings.Repeat("0123456789abcdef", 4)

// program is one more file of programs/.
func program(text string) []edit { return []edit{{"programs/x.yaml", "", text}} }

// badPrograms holds mistakes in programs/, and what is said about them.
var badPrograms = []badInput{
	{
		"an empty file", program("# later\n"),
		[]string{`programs/x.yaml:1:1: error: nothing says where the program comes from; write one of the keys go, ` +
			`folder, file or archive`},
	},
	{
		"two sources", program("folder: ./gateway\nfile: {url: https://files.example.org/x, sha256: " + someSum + "}\n"),
		[]string{`programs/x.yaml:2:7: error: folder and file both say where the program comes from; keep one of them`},
	},
	{
		"a misspelt key", program("folder: ./gateway\nlicense: MIT\n"),
		[]string{`programs/x.yaml:2:1: error: unknown key "license"; did you mean "licence"?`},
	},
	{
		"a name that is no name", []edit{{"programs/My Tool.yaml", "", "folder: ./gateway\npath: /usr/bin/x\n"}},
		[]string{`programs/My Tool.yaml:1:1: error: "My Tool" is not the name of a program; call the file by 1 to 63 ` +
			`lower-case letters, digits and . _ + -, such as gateway.yaml`},
	},
	{
		"another ending", []edit{{"programs/x.yml", "", "folder: ./gateway\n"}},
		[]string{`programs/x.yml:1:1: error: files end in .yaml; rename it to x.yaml`},
	},
	{
		"a description of two lines", program("description: \"a\\nb\"\nfolder: ./gateway\n"),
		[]string{`programs/x.yaml:1:14: error: the description is not one line of at most 200 bytes; shorten it`},
	},
	{
		"what no file names", []edit{{"programs/spare/go.mod", "", "module spare\n"}, {"programs/x.bin", "", "x"}},
		[]string{
			`programs/spare:1:1: warning: no file of programs/ names it, so the image does not have it; write ` +
				`programs/NAME.yaml for it, or remove it`,
			`programs/x.bin:1:1: warning: no file of programs/ names it, so the image does not have it; write ` +
				`programs/NAME.yaml for it, or remove it`,
		},
	},
	{
		"a folder outside", program("folder: ../gateway\n"),
		[]string{`programs/x.yaml:1:9: error: "../gateway" is not the name of a folder beside this file; write it as ` +
			`./NAME, without .., since what is outside of programs/ is not read`},
	},
	{
		"a folder that goes round", program("folder: ./a/../../gateway\n"),
		[]string{`programs/x.yaml:1:9: error: "./a/../../gateway" is not the name of a folder beside this file; write it ` +
			`as ./NAME, without .., since what is outside of programs/ is not read`},
	},
	{
		"a folder that is not there", program("folder: ./gatewy\n"),
		[]string{`programs/x.yaml:1:9: error: programs/gatewy cannot be read: file does not exist`},
	},
	{
		"a folder that is a file", program("folder: ./README.md\n"),
		[]string{`programs/x.yaml:1:9: error: programs/README.md cannot be read: it is not a folder`},
	},
	{
		"a folder that is a link", []edit{{"programs/x.yaml", "", "folder: ./link\n"}, {"programs/link", "",
			linked + "gateway"}},
		[]string{`programs/x.yaml:1:9: error: programs/link cannot be read: it is a link; put the folder itself there`},
	},
	{
		"a folder below a link", []edit{{"programs/x.yaml", "", "folder: ./link/cmd\n"}, {"programs/link", "",
			linked + "gateway"}},
		[]string{`programs/x.yaml:1:9: error: programs/link/cmd cannot be read: programs/link is a link; put the folder ` +
			`itself there`},
	},
	{
		"a folder without go.mod", program("folder: ./files\n"),
		[]string{"programs/x.yaml:1:9: error: programs/files/ has no go.mod, so it is not a Go module; make one there " +
			"with `go mod init`, take a program that is compiled already with the key file, or put the files of a program in " +
			"Python and the like into overlay/opt/x/"},
	},
	{
		"a go.mod that is none", []edit{{"programs/gateway/go.mod", "", "modul x\n"}},
		[]string{`programs/gateway.yaml:1:9: error: programs/gateway/go.mod cannot be read: go.mod:1: unknown directive: ` +
			`modul`},
	},
	{
		"a folder without go.sum", []edit{{"programs/gateway/go.sum", "", remove}},
		[]string{"programs/gateway.yaml:1:9: error: programs/gateway/ has no go.sum, and its go.mod requires other " +
			"modules; make it there with `go mod tidy`"},
	},
	{
		"a folder that needs another", []edit{{"programs/gateway/go.mod", "./text", "../text"}},
		[]string{"programs/gateway.yaml:1:9: error: programs/gateway/go.mod replaces a module by \"../text\", which is " +
			"outside of the folder; put it into the folder, or make vendor/ with `go mod vendor`"},
	},
	{
		"a package outside", []edit{{"programs/gateway.yaml", "./cmd/gateway", "../cmd"}},
		[]string{`programs/gateway.yaml:2:10: error: "../cmd" is not a package of the module; write it as ./cmd/gateway, ` +
			`or leave it out for the module itself`},
	},
	{
		"a package of a file", program("file: {path: ./files/script.sh, sha256: " + someSum + "}\npackage: ./x\n"),
		[]string{`programs/x.yaml:2:10: error: package belongs to a folder; leave it out`},
	},
	{
		"a package beside go", []edit{{"programs/tool.yaml", "go:\n", "package: ./x\ngo:\n"}},
		[]string{`programs/tool.yaml:1:10: error: package belongs to a folder; write it below go`},
	},
	{
		"a module that is none", []edit{{"programs/tool.yaml", "example.org/tool", "../tool"}},
		[]string{`programs/tool.yaml:2:11: error: "../tool" is not the path of a Go module; write one such as ` +
			`example.org/gateway`},
	},
	{
		"the newest version", []edit{{"programs/tool.yaml", "v1.2.3", "latest"}},
		[]string{`programs/tool.yaml:3:12: error: "latest" is not one version of a Go module; write it whole, such as v1.2.3`},
	},
	{
		"half a version", []edit{{"programs/tool.yaml", "v1.2.3", "v1.2"}},
		[]string{`programs/tool.yaml:3:12: error: "v1.2" is not one version of a Go module; write it whole, such as v1.2.3`},
	},
	{
		"another major version", []edit{{"programs/tool.yaml", "v1.2.3", "v2.0.0"}},
		[]string{`programs/tool.yaml:3:12: error: a module example.org/tool has no version v2.0.0; from v2 on the path ` +
			`ends in /v2 and so on`},
	},
	{
		"a module without a sum", []edit{{"programs/tool.yaml", "  sum: \"" + moduleSum + "\"\n", ""}},
		[]string{"programs/tool.yaml:2:3: error: nothing pins the module; write sum: and what `go mod download -json " +
			"example.org/tool@v1.2.3` prints as Sum, or put its go.mod and go.sum into programs/tool/"},
	},
	{
		"a sum that is none", []edit{{"programs/tool.yaml", moduleSum, someSum}},
		[]string{`programs/tool.yaml:4:8: error: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab…" is not ` +
			`the checksum of a module; write h1: and 44 characters, as go.sum has it`},
	},
	{
		"a version beside go", []edit{{"programs/tool.yaml", "go:\n", "version: v1\ngo:\n"}},
		[]string{`programs/tool.yaml:1:10: error: the version of a Go module stands below go; leave this one out`},
	},
	{
		"pins of another version", []edit{{"programs/pinned.yaml", "v1.2.3", "v1.2.4"}},
		[]string{`programs/pinned.yaml:1:43: error: programs/pinned/go.mod requires example.org/pinned v1.2.3, and this ` +
			`says v1.2.4; write the same in both`},
	},
	{
		"pins of another module", []edit{{"programs/pinned.yaml", "example.org/pinned", "example.org/other"}},
		[]string{`programs/pinned.yaml:1:14: error: programs/pinned/go.mod does not require example.org/other; add it ` +
			`there, or remove the folder`},
	},
	{
		"pins with another sum", []edit{{"programs/pinned.yaml", "v1.2.3}", "v1.2.3, sum: \"h1:" + strings.Repeat("A",
			43) + "=\"}"}},
		[]string{`programs/pinned.yaml:1:56: error: programs/pinned/go.sum says ` + moduleSum + ` of the module, and this ` +
			`says h1:` + strings.Repeat("A", 43) + `=; one of them is wrong`},
	},
	{
		"a file from two places", program("file: {url: https://files.example.org/x, path: ./x, sha256: " + someSum + "}\n"),
		[]string{`programs/x.yaml:1:48: error: url and path both say where it comes from; keep one of them`},
	},
	{
		"a file from nowhere", program("file: {sha256: " + someSum + "}\n"),
		[]string{`programs/x.yaml:1:7: error: nothing says where it comes from; write url: or path: below file`},
	},
	{
		"a file without a hash", program("file: {url: https://files.example.org/x}\n"),
		[]string{`programs/x.yaml:1:7: error: the key "sha256" is missing; add it and write a text`},
	},
	{
		"a hash that is none", program("file: {url: https://files.example.org/x, sha256: ABC}\n"),
		[]string{"programs/x.yaml:1:50: error: \"ABC\" is not a SHA-256; write the 64 lower-case hexadecimal digits that " +
			"`sha256sum` prints"},
	},
	{
		"a file by ftp", program("file: {url: \"ftp://files.example.org/x\", sha256: " + someSum + "}\n"),
		[]string{`programs/x.yaml:1:13: error: "ftp://files.example.org/x" is not the URL of a file; write https://, host ` +
			`and path`},
	},
	{
		"a URL with a user", program("file: {url: \"https://me@files.example.org/x\", sha256: " + someSum + "}\n"),
		[]string{`programs/x.yaml:1:13: error: the URL holds a user or a password, which everybody with the configuration ` +
			`could read; take a copy beside this file with the key path`},
	},
	{
		"a file that is not there", program("file: {path: ./x, sha256: " + someSum + "}\n"),
		[]string{`programs/x.yaml:1:14: error: programs/x cannot be read: file does not exist`},
	},
	{
		"a file that is a folder", program("file: {path: ./gateway, sha256: " + someSum + "}\n"),
		[]string{`programs/x.yaml:1:14: error: programs/gateway cannot be read: it is a directory`},
	},
	{
		"an archive of nothing", program("archive: {url: https://files.example.org/x, sha256: " + someSum + ", files: {}}\n"),
		[]string{`programs/x.yaml:1:126: error: no files are taken from the archive; write a line for each, its path in ` +
			`the archive and behind a colon its path in the image`},
	},
	{
		"a path out of an archive", []edit{{"programs/zip.yaml", "bin/zip:", "../bin/zip:"}},
		[]string{"programs/zip.yaml:5:17: error: \"../bin/zip\" is not the path of a file in an archive; write it as `tar " +
			"-t` or `unzip -l` lists it, without ./ before it and without .."},
	},
	{
		"a file of an archive twice", []edit{{"programs/zip.yaml", "    bin/zip:", "    bin/other: /usr/bin/zip\n    " +
			"bin/zip:"}},
		[]string{`programs/zip.yaml:6:14: error: the path "/usr/bin/zip" exists already, at programs/zip.yaml:5; write ` +
			`another one`},
	},
	{
		"a path beside an archive", []edit{{"programs/zip.yaml", "archive:", "path: /usr/bin/zip\nlinks: []\narchive:"}},
		[]string{
			`programs/zip.yaml:1:7: error: path is not for an archive; its files say where each lies`,
			`programs/zip.yaml:2:8: error: links is not for an archive; its files say where each lies`,
		},
	},
	{
		"a path of another program", program("folder: ./gateway\nlinks: [/usr/bin/gateway]\n"),
		[]string{`programs/x.yaml:2:9: error: the path "/usr/bin/gateway" exists already, at programs/gateway.yaml:1; ` +
			`write another one`},
	},
	{
		"paths that are closed", program("folder: ./gateway\npath: /etc/x\nlinks: [/var/lib/x, " +
			"/usr/lib/systemd/system/x.service, bin/x, /usr/bin/../x, /usr]\n"),
		[]string{
			`programs/x.yaml:2:7: error: /etc/x is not below /usr or /opt, where the image is the same on every machine; ` +
				`write /usr/bin/x, or a path below /opt`,
			`programs/x.yaml:3:9: error: /var/lib/x is not below /usr or /opt, where the image is the same on every machine; ` +
				`write /usr/bin/x, or a path below /opt`,
			`programs/x.yaml:3:21: error: /usr/lib/systemd/system/x.service cannot be a program's: files there decide how a ` +
				`machine starts; write a path such as /usr/bin/x.service`,
			`programs/x.yaml:3:56: error: "bin/x" is not a path in the image; write an absolute one without . and .. and ` +
				`blanks, such as /usr/bin/gateway`,
			`programs/x.yaml:3:63: error: "/usr/bin/../x" is not a path in the image; write an absolute one without . and .. ` +
				`and blanks, such as /usr/bin/gateway`,
			`programs/x.yaml:3:78: error: /usr is not below /usr or /opt, where the image is the same on every machine; ` +
				`write /usr/bin/usr, or a path below /opt`,
		},
	},
	{
		"set-user-ID", program("folder: ./gateway\nmode: \"4755\"\n"),
		[]string{`programs/x.yaml:2:7: error: the mode "4755" is not allowed; a program has neither set-user-ID nor ` +
			`set-group-ID nor the sticky bit; give its unit the user, group or capabilities that it needs`},
	},
	{
		"a mode without quotes", program("folder: ./gateway\nmode: 0755\n"),
		[]string{`programs/x.yaml:2:7: error: mode is a number where a text belongs; put it into quotes: "0755"`},
	},
	{
		"a mode of three digits", program("folder: ./gateway\nmode: \"755\"\n"),
		[]string{`programs/x.yaml:2:7: error: the mode "755" is not allowed; write four octal digits in quotes, such as ` +
			`"0755"`},
	},
	{
		"a licence in words", program("folder: ./gateway\nlicence: Apache 2.0\n"),
		[]string{`programs/x.yaml:2:10: error: "Apache 2.0" is not an SPDX licence expression; write one such as ` +
			`Apache-2.0, "MIT OR BSD-2-Clause" or LicenseRef-Acme`},
	},
	{
		"a version with blanks", program("folder: ./gateway\nversion: 1 2\n"),
		[]string{`programs/x.yaml:2:10: error: "1 2" is not a version; write up to 64 letters, digits and . + ~ _ : -, ` +
			`such as 1.2.3`},
	},
	{
		"a folder with nearly the right name", []edit{{"program/x.yaml", "", "folder: ./gateway\n"}},
		[]string{`program:1:1: error: nothing reads this directory; did you mean "programs"?`},
	},
}

func TestProgramsOfEachKindAreRead(t *testing.T) {
	files := goodFolder(t)
	c, report := Check(files, Options{Strict: true})
	require.Empty(t, serious(report))
	var names []string
	for _, p := range c.Programs {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"gateway", "pinned", "script", "tool", "zip"}, names)
	require.Equal(t, []string{"/opt/script", "/usr/bin/s"}, c.Programs[2].Targets())
	require.Equal(t, moduleSum, c.Programs[1].ModuleSum())
	require.Len(t, c.ProgramFiles(), 5)
	for name := range c.Source() {
		require.NotContains(t, name, "programs/", "no node has a use for them")
	}

	apply(t, files, []edit{{"programs/gateway/go.mod", "./text", "../text"}, {"programs/gateway/vendor/modules.txt", "",
		"#\n"}})
	_, report = Check(files, Options{})
	require.Empty(t, serious(report), "a module outside is in vendor/")
}

func TestProgramsAreBounded(t *testing.T) {
	files := goodFolder(t)
	for i := range 100 {
		files["programs/p"+strings.Repeat("x", i%50)+string(rune('a'+i/50))+".yaml"] = &fstest.MapFile{Data: []byte("folder: ./gateway\n")}
	}
	_, report := Check(files, Options{})
	require.True(t, slices.ContainsFunc(report, func(p check.Problem) bool {
		return p.Message == "programs/ has 105 programs; at most 100 are read"
	}))
	files = goodFolder(t)
	files["programs/gateway/go.sum"] = &fstest.MapFile{Data: make([]byte, 5<<20)}
	_, report = Check(files, Options{})
	require.Contains(t, serious(report), "programs/gateway/go.sum:1:1: error: it is larger than 4 MiB\n")
}
