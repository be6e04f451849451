package payload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/store"
)

const minimalPom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <dependencies>
    <dependency><groupId>org.example</groupId><artifactId>server</artifactId><version>1.2</version></dependency>
  </dependencies>
  <build><plugins><plugin>
    <groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><version>3.8.1</version>
  </plugin></plugins></build>
</project>
`

const minimalDescription = `version: org.example:server
jars: /usr/share/server/libs
files:
  - {from: log.properties, path: /usr/share/server/log.properties}
  - {from: tool, path: /usr/bin/tool, links: [/usr/bin/other]}
`

const pluginName = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

// pluginParts are what the plugin consists of in these tests.
var pluginParts = map[string]string{
	"org/apache/maven/plugins/maven-dependency-plugin/3.8.1/maven-dependency-plugin-3.8.1.jar": "plugin",
	"org/apache/maven/plugins/maven-dependency-plugin/3.8.1/maven-dependency-plugin-3.8.1.pom": "<project/>",
	"org/example/part/1/part-1.jar": "part",
}

func minimalPlugin() string {
	var lines []string
	for path, content := range pluginParts {
		lines = append(lines, sumOf(path, content))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// paths of what Maven brings in these tests, by what is in them.
var brought = map[string]string{
	"org/example/server/1.2/server-1.2.jar":               "server",
	"org/example/codec/1.0/codec-1.0-linux_amd64.jar":     "codec",
	"org/example/codec/1.0/_remote.repositories":          "a note of Maven's",
	"org/example/server/maven-metadata-local.xml":         "a note of Maven's",
	"com/other/client_2.13/4-rc.1/client_2.13-4-rc.1.jar": "client",
}

func sumOf(artifact, content string) string {
	sum := sha256.Sum256([]byte(content))
	return fmt.Sprintf("%s %d sha256:%s\n", artifact, len(content), hex.EncodeToString(sum[:]))
}

func minimalSums() string {
	return sumOf("com.other:client_2.13:4-rc.1", "client") + sumOf("org.example:codec:1.0:linux_amd64", "codec") + sumOf("org.example:server:1.2", "server")
}

// maven is a command with Maven's arguments that lays out the given files instead of asking for any; it counts its runs in
// a file. Real Maven is what test/payloads runs.
func maven(t *testing.T, files map[string]string) (command, runs string) {
	t.Helper()
	dir := t.TempDir()
	command, runs = filepath.Join(dir, "mvn"), filepath.Join(dir, "runs")
	from := filepath.Join(dir, "repository")
	for name, data := range files {
		p := filepath.Join(from, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(data), 0o644))
	}
	local := filepath.Join(dir, "local")
	for name, data := range pluginParts {
		p := filepath.Join(local, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(data), 0o644))
	}
	// Called with the part that is nowhere, it says where the plugin lies, and that this part is missing.
	stopped := "if [ -f plugin.xml ] && [ ! -f stopped ]; then : > stopped\n" + "grep -q /nonexistent/stop.jar plugin.xml\necho '[DEBUG] Using local repository at " + local + "'\n" +
		"echo '[ERROR] Failed to execute goal " + pluginName + ":copy-dependencies on project plugin: Could not find artifact spore:stop:jar:0 at specified path /nonexistent/stop.jar'\nexit 1; fi\n"
	script := "#!/bin/sh\nset -e\n[ -f pom.xml ]\n" + stopped + "echo run >> " + runs + "\necho \"$@\" > " + runs + ".args\nfor a; do case $a in -DoutputDirectory=*) cp -r " + from + ` "${a#*=}";; esac; done` + "\n"
	require.NoError(t, os.WriteFile(command, []byte(script), 0o755))
	return command, runs
}

// jars is the folder of a payload called server, with some files replaced; nil takes one away.
func jars(t *testing.T, replace map[string]*string) string {
	t.Helper()
	files := map[string]string{PomFile: minimalPom, SumFile: minimalSums(), PluginFile: minimalPlugin(), DescriptionFile: minimalDescription, "log.properties": "level = info\n", "tool": "#!/bin/sh\n"}
	for name, data := range replace {
		delete(files, name)
		if data != nil {
			files[name] = *data
		}
	}
	dir := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
	if _, ok := files["tool"]; ok {
		require.NoError(t, os.Chmod(filepath.Join(dir, "tool"), 0o700))
	}
	return dir
}

func TestJarsAreLaidOutAsPinned(t *testing.T) {
	command, runs := maven(t, brought)
	st, dir := newStore(t), jars(t, nil)
	started := map[string]bool{}
	o := Options{Env: os.Environ(), Maven: command, Report: func(p Progress) { started[p.Program] = true }}
	planned, err := Build(context.Background(), st, dir, Options{Maven: "/nonexistent", Plan: true})
	require.NoError(t, err, "a plan needs no Maven")
	list, err := Build(context.Background(), st, dir, o)
	require.NoError(t, err)
	require.Len(t, planned, len(list))
	for i, p := range planned {
		require.Equal(t, list[i].Key, p.Key)
		require.Equal(t, list[i].Target, p.Target)
	}
	type row struct {
		name, target, version, artifact, content string
		mode                                     uint32
	}
	var got []row
	for _, p := range list {
		require.Equal(t, "server", p.Payload)
		require.False(t, p.Compiled)
		data, err := os.ReadFile(p.Path)
		require.NoError(t, err)
		require.EqualValues(t, len(data), p.Size)
		r := row{name: p.Name, target: p.Target, version: p.Version, content: string(data), mode: p.Mode}
		if p.Artifact != nil {
			r.artifact = p.Artifact.String()
		}
		got = append(got, r)
	}
	require.Equal(t, []row{
		{"server/client_2.13-4-rc.1.jar", "/usr/share/server/libs/client_2.13-4-rc.1.jar", "4-rc.1", "com.other:client_2.13:4-rc.1", "client", 0o644},
		{"server/codec-1.0-linux_amd64.jar", "/usr/share/server/libs/codec-1.0-linux_amd64.jar", "1.0", "org.example:codec:1.0:linux_amd64", "codec", 0o644},
		{"server/server-1.2.jar", "/usr/share/server/libs/server-1.2.jar", "1.2", "org.example:server:1.2", "server", 0o644},
		{"server/log.properties", "/usr/share/server/log.properties", "1.2", "", "level = info\n", 0o644},
		{"server/tool", "/usr/bin/tool", "1.2", "", "#!/bin/sh\n", 0o755},
	}, got)
	require.Equal(t, []string{"/usr/bin/other"}, list[4].Links)
	require.Equal(t, map[string]bool{"server": true}, started)

	again, err := Build(context.Background(), st, dir, Options{Maven: "/nonexistent"})
	require.NoError(t, err, "what is in the store needs no Maven")
	for i, p := range again {
		require.True(t, p.Cached, p.Name)
		require.Equal(t, list[i].Key, p.Key)
	}

	// The jars are there still; what leads to them is another file.
	other := jars(t, map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "</project>", "<!-- changed --></project>", 1))})
	_, err = Build(context.Background(), st, other, o)
	require.NoError(t, err)
	count, err := os.ReadFile(runs)
	require.NoError(t, err)
	require.Equal(t, "run\nrun\n", string(count))
	args, err := os.ReadFile(runs + ".args")
	require.NoError(t, err)
	words := strings.Fields(string(args))
	require.Equal(t, "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", words[len(words)-1], "the plugin's version is not for Maven to choose")
}

func TestWhatMavenBringsIsHeldAgainstThePins(t *testing.T) {
	with := func(path, content string) map[string]string {
		out := map[string]string{path: content}
		for p, data := range brought {
			if _, ok := out[p]; !ok {
				out[p] = data
			}
		}
		return out
	}
	without := func(path string) map[string]string {
		out := with("", "")
		delete(out, "")
		delete(out, path)
		return out
	}
	moved := without("org/example/codec/1.0/codec-1.0-linux_amd64.jar")
	moved["org/example/codec/1.1/codec-1.1-linux_amd64.jar"] = "codec"
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"another hash":           {with("org/example/server/1.2/server-1.2.jar", "SERVER"), []string{"org.example:server:1.2: the jar that Maven brought has", "damaged or forged"}},
		"a jar too few":          {without("org/example/codec/1.0/codec-1.0-linux_amd64.jar"), []string{"org.example:codec:1.0:linux_amd64 is in pom.sum, but pom.xml does not lead to such a jar", "UPDATE=1"}},
		"a jar too many":         {with("org/example/extra/9/extra-9.jar", "x"), []string{"pom.xml leads to org.example:extra:9, which pom.sum does not name"}},
		"another version":        {moved, []string{"pom.xml leads to org.example:codec:1.1:linux_amd64, and pom.sum has version 1.0"}},
		"a classifier too many":  {with("org/example/server/1.2/server-1.2-tests.jar", "x"), []string{"org.example:server:1.2:tests, which pom.sum does not name"}},
		"what is not a jar":      {with("org/example/server/1.2/server-1.2.so", "x"), []string{"server-1.2.so is not a jar"}},
		"a file that is nowhere": {with("stray.jar", "x"), []string{"stray.jar is not a path of a Maven repository"}},
		"all at once": {map[string]string{"org/example/server/1.2/server-1.2.jar": "SERVER", "org/example/extra/9/extra-9.jar": "x"},
			[]string{"org.example:server:1.2: the jar", "client_2.13:4-rc.1 is in pom.sum", "codec:1.0:linux_amd64 is in pom.sum", "org.example:extra:9"}},
	} {
		t.Run(name, func(t *testing.T) {
			command, _ := maven(t, tc.files)
			st, dir := newStore(t), jars(t, nil)
			_, err := Build(context.Background(), st, dir, Options{Env: os.Environ(), Maven: command})
			require.Error(t, err)
			for _, want := range append(tc.want, "payload server") {
				require.ErrorContains(t, err, want)
			}
			for _, j := range []string{"server", "SERVER"} {
				sum := sha256.Sum256([]byte(j))
				require.False(t, st.Has(store.Key(sum)), "nothing of it is kept")
			}
			left, err := os.ReadDir(st.TempDir())
			require.NoError(t, err)
			require.Empty(t, left, "nothing half-written stays")
		})
	}
}

func TestPinsOfJarsAreChecked(t *testing.T) {
	depend := func(version string) *string {
		return ptr(strings.Replace(minimalPom, "<version>1.2</version>", version, 1))
	}
	for name, tc := range map[string]struct {
		replace map[string]*string
		want    []string
	}{
		"no sums":                    {map[string]*string{SumFile: nil}, []string{"its jars are pinned nowhere", "UPDATE=1"}},
		"no description":             {map[string]*string{DescriptionFile: nil}, []string{"payload.yaml"}},
		"a range":                    {map[string]*string{PomFile: depend("<version>[1.2,2)</version>")}, []string{"pom.xml", `"[1.2,2)" is not valid in the name of an artifact`, "no range"}},
		"no version":                 {map[string]*string{PomFile: depend("")}, []string{`"" is not valid in the name of an artifact`}},
		"a property":                 {map[string]*string{PomFile: depend("<version>${v}</version>")}, []string{"no property"}},
		"the latest version":         {map[string]*string{PomFile: depend("<version>LATEST</version>")}, []string{"can change; name an exact version"}},
		"a snapshot":                 {map[string]*string{PomFile: depend("<version>1.2-SNAPSHOT</version>")}, []string{"can change; name an exact version"}},
		"a version that was raised":  {map[string]*string{PomFile: depend("<version>1.3</version>")}, []string{"it asks for org.example:server:1.3, which pom.sum does not name", "UPDATE=1"}},
		"a parent":                   {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "<dependencies>", "<parent/><dependencies>", 1))}, []string{"it has a parent"}},
		"a repository":               {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "<dependencies>", "<repositories/><dependencies>", 1))}, []string{"it names repositories"}},
		"no plugin":                  {map[string]*string{PomFile: ptr(strings.Replace(strings.Replace(minimalPom, "<plugin>", "<other>", 1), "</plugin>", "</other>", 1))}, []string{"it names 0 plugins"}},
		"two plugins":                {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "<plugins>", "<plugins><plugin><groupId>a</groupId><artifactId>b</artifactId><version>1</version></plugin>", 1))}, []string{"it names 2 plugins"}},
		"another plugin":             {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "maven-dependency-plugin", "maven-antrun-plugin", 1))}, []string{`it names the plugin "org.apache.maven.plugins:maven-antrun-plugin:3.8.1"`}},
		"a plugin of another group":  {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "org.apache.maven.plugins", "org.evil", 1))}, []string{`it names the plugin "org.evil:`}},
		"a plugin without a version": {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "<version>3.8.1</version>", "", 1))}, []string{"maven-dependency-plugin:", `"" is not valid in the name of an artifact`}},
		"a plugin's range":           {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "3.8.1", "[3,4)", 1))}, []string{"no range"}},
		"a plugin's newest version":  {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "3.8.1", "RELEASE", 1))}, []string{"can change; name an exact version"}},
		"a plugin with other jars":   {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "</plugin>", "<dependencies/></plugin>", 1))}, []string{"it changes what the plugin"}},
		"a plugin that is more":      {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "</plugin>", "<extensions>true</extensions></plugin>", 1))}, []string{"it changes what the plugin"}},
		"an extension":               {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "<build>", "<build><extensions/>", 1))}, []string{"it has extensions, pluginManagement or profiles"}},
		"managed plugins":            {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "<build>", "<build><pluginManagement/>", 1))}, []string{"it has extensions, pluginManagement or profiles"}},
		"a profile":                  {map[string]*string{PomFile: ptr(strings.Replace(minimalPom, "<build>", "<profiles/><build>", 1))}, []string{"it has extensions, pluginManagement or profiles"}},
		"no dependencies":            {map[string]*string{PomFile: ptr("<project/>")}, []string{"it has no dependencies"}},
		"no XML":                     {map[string]*string{PomFile: ptr("x")}, []string{"pom.xml"}},
		"a file that is not there":   {map[string]*string{"tool": nil}, []string{"tool"}},
	} {
		t.Run(name, func(t *testing.T) {
			command, runs := maven(t, brought)
			_, err := Build(context.Background(), newStore(t), jars(t, tc.replace), Options{Env: os.Environ(), Maven: command})
			require.Error(t, err)
			for _, want := range append(tc.want, "payload server") {
				require.ErrorContains(t, err, want)
			}
			if name != "a file that is not there" {
				require.NoFileExists(t, runs, "it can be said without Maven")
			}
		})
	}
}

func TestMavenThatDoesNotRun(t *testing.T) {
	_, err := Build(context.Background(), newStore(t), jars(t, nil), Options{Env: os.Environ(), Maven: "/nonexistent/mvn"})
	require.ErrorContains(t, err, "install Maven")

	t.Setenv("PATH", t.TempDir())
	_, err = Build(context.Background(), newStore(t), jars(t, nil), Options{Env: os.Environ()})
	require.ErrorContains(t, err, "there is no mvn on this machine: install Maven")

	fails := filepath.Join(t.TempDir(), "mvn")
	require.NoError(t, os.WriteFile(fails, []byte("#!/bin/sh\necho '[ERROR] Could not resolve dependencies'\nexit 1\n"), 0o755))
	_, err = Build(context.Background(), newStore(t), jars(t, nil), Options{Env: os.Environ(), Maven: fails})
	require.ErrorContains(t, err, "Could not resolve dependencies")
}

func TestSumsAreWrittenAsTheyAreRead(t *testing.T) {
	command, _ := maven(t, brought)
	sums, err := Sums(context.Background(), jars(t, map[string]*string{SumFile: nil}), Options{Env: os.Environ(), Maven: command})
	require.NoError(t, err)
	require.Equal(t, minimalSums(), string(sums))

	_, err = Sums(context.Background(), jars(t, map[string]*string{PomFile: ptr("<project/>")}), Options{Maven: command})
	require.ErrorContains(t, err, "it has no dependencies")
}

func TestLinesOfSums(t *testing.T) {
	const hash = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for name, tc := range map[string]struct{ in, err string }{
		"one jar":                  {"a:b:1 1 " + hash + "\n", ""},
		"a classifier":             {"a:b:1:c 1 " + hash + "\n", ""},
		"nothing":                  {"", "it names no jar"},
		"an empty line":            {"\na:b:1 1 " + hash, "line 1: it is not GROUP:NAME:VERSION"},
		"a word too many":          {"a:b:1 1 " + hash + " x", "it is not GROUP:NAME:VERSION"},
		"two blanks":               {"a:b:1  1 " + hash, "it is not GROUP:NAME:VERSION"},
		"two words":                {"a:b 1 " + hash, `"a:b" is not GROUP:NAME:VERSION`},
		"an empty classifier":      {"a:b:1: 1 " + hash, "empty classifier"},
		"a version that leads out": {"a:b:.. 1 " + hash, "is not valid in the name of an artifact"},
		"a name that leads out":    {"a:../b:1 1 " + hash, "is not valid in the name of an artifact"},
		"a range":                  {"a:b:[1,2) 1 " + hash, "no range"},
		"no size":                  {"a:b:1 x " + hash, "the size x"},
		"an empty jar":             {"a:b:1 0 " + hash, "the size 0"},
		"a size with a sign":       {"a:b:1 +1 " + hash, "the size +1"},
		"a size beyond all jars":   {"a:b:1 99999999999 " + hash, "the size 99999999999"},
		"another hash":             {"a:b:1 1 sha1:00", "is not sha256: and 64"},
		"a short hash":             {"a:b:1 1 sha256:00", "is not sha256: and 64"},
		"a hash in capitals":       {"a:b:1 1 " + strings.ToUpper(hash), "is not sha256: and 64"},
		"not sorted":               {"b:b:1 1 " + hash + "\na:a:1 1 " + hash, "line 2: the lines are not sorted"},
		"twice":                    {"a:b:1 1 " + hash + "\na:b:1 1 " + hash, "in a second version"},
		"two versions":             {"a:b:1 1 " + hash + "\na:b:2 1 " + hash, "a:b:2 appears in a second version"},
		"two jars of one name":     {"a:b:1 1 " + hash + "\nc:b:1 1 " + hash, "a second jar is called b-1.jar"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := parseSums([]byte(tc.in))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.in, string(formatSums(list)))
		})
	}
}

func TestADescriptionOfJarsIsChecked(t *testing.T) {
	direct := []Artifact{{Group: "g", Name: "n", Version: "1"}, {Group: "g", Name: "native", Version: "2", Classifier: "linux"}}
	for name, tc := range map[string]struct{ in, err string }{
		"the least":                     {"{version: 'g:n', jars: /usr/share/n}", ""},
		"a version of no dependency":    {"{version: 'g:m', jars: /usr/share/n}", `pom.xml has no dependency "g:m"`},
		"a version of a classifier":     {"{version: 'g:native', jars: /usr/share/n}", "has no dependency"},
		"no version":                    {"{jars: /usr/share/n}", "has no dependency"},
		"no place":                      {"{version: 'g:n'}", "does not say where the jars go"},
		"a relative place":              {"{version: 'g:n', jars: usr}", "not a clean absolute path"},
		"the keys of a Go module":       {"{version: 'g:n', jars: /usr/share/n, programs: []}", "field programs not found"},
		"a file from elsewhere":         {"{version: 'g:n', jars: /a, files: [{from: ../x, path: /b}]}", "is not the name of a file"},
		"a file of a folder":            {"{version: 'g:n', jars: /a, files: [{from: x/y, path: /b}]}", "is not the name of a file"},
		"a file without a name":         {"{version: 'g:n', jars: /a, files: [{path: /b}]}", "is not the name of a file"},
		"a file with a relative target": {"{version: 'g:n', jars: /a, files: [{from: x, path: b}]}", "not a clean absolute path"},
		"a relative link":               {"{version: 'g:n', jars: /a, files: [{from: x, path: /b, links: [c]}]}", "not a clean absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := parseJarsDescription([]byte(tc.in), direct)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "1", d.Version)
		})
	}
}

func FuzzSums(f *testing.F) {
	f.Add(minimalSums())
	f.Add("a:b:1:c 1 sha256:00\n")
	f.Fuzz(func(t *testing.T, in string) {
		list, err := parseSums([]byte(in))
		if err != nil {
			return
		}
		require.Equal(t, strings.TrimSuffix(in, "\n"), strings.TrimSuffix(string(formatSums(list)), "\n"))
		for _, j := range list {
			require.Equal(t, filepath.Base(j.File()), j.File())
			back, err := artifactOf(strings.ReplaceAll(j.Group, ".", "/") + "/" + j.Name + "/" + j.Version + "/" + j.File())
			require.NoError(t, err)
			require.Equal(t, j.Artifact, back)
		}
	})
}

func ptr(s string) *string { return &s }

func TestAPluginThatIsAnotherOneIsNotRun(t *testing.T) {
	own := "org/apache/maven/plugins/maven-dependency-plugin/3.8.1/maven-dependency-plugin-3.8.1.jar"
	said := func(text string) string { return "#!/bin/sh\n" + text }
	local := func(command string) string { return filepath.Join(filepath.Dir(command), "local") }
	for name, tc := range map[string]struct {
		change func(t *testing.T, command string) // of what Maven has, or says
		pins   *string
		want   string
	}{
		"as pinned": {func(*testing.T, string) {}, nil, ""},
		"another jar": {func(t *testing.T, command string) {
			require.NoError(t, os.WriteFile(filepath.Join(local(command), own), []byte("PLUGIN"), 0o644))
		}, nil, "it is damaged or forged, and was not run"},
		"another part": {func(t *testing.T, command string) {
			require.NoError(t, os.WriteFile(filepath.Join(local(command), "org/example/part/1/part-1.jar"), []byte("more of it"), 0o644))
		}, nil, "part-1.jar of the plugin " + pluginName + " has 10 bytes"},
		"another pom": {func(t *testing.T, command string) {
			require.NoError(t, os.WriteFile(filepath.Join(local(command), strings.TrimSuffix(own, "jar")+"pom"), []byte("<project />"), 0o644))
		}, nil, "it is damaged or forged, and was not run"},
		"a part that this Maven has itself": {func(t *testing.T, command string) {
			require.NoError(t, os.Remove(filepath.Join(local(command), "org/example/part/1/part-1.jar")))
		}, nil, ""},
		"no plugin where it should be": {func(t *testing.T, command string) { require.NoError(t, os.Remove(filepath.Join(local(command), own))) }, nil, "no such file"},
		"it cannot be brought": {func(t *testing.T, command string) {
			require.NoError(t, os.WriteFile(command, []byte(said("echo '[ERROR] Failed to execute goal x on project plugin: The following artifacts could not be resolved: org.example:part:jar:1, spore:stop:jar:0'; exit 1")), 0o755))
		}, nil, "does not bring the plugin"},
		"there is no network": {func(t *testing.T, command string) {
			require.NoError(t, os.WriteFile(command, []byte(said("echo '[ERROR] Unknown host'; exit 1")), 0o755))
		}, nil, "[ERROR] Unknown host"},
		"it runs all the same": {func(t *testing.T, command string) {
			require.NoError(t, os.WriteFile(command, []byte(said("exit 0")), 0o755))
		}, nil, "ran the plugin " + pluginName + " with a part that is nowhere"},
		"it does not say where": {func(t *testing.T, command string) {
			require.NoError(t, os.WriteFile(command, []byte(said("echo '[ERROR] Failed to execute goal x: spore:stop:jar:0'; exit 1")), 0o755))
		}, nil, "does not say where its local repository is"},
		"pins of another one":    {func(*testing.T, string) {}, ptr(sumOf("org/example/part/1/part-1.jar", "part")), "plugin.sum does not name the plugin of pom.xml"},
		"pins that are none":     {func(*testing.T, string) {}, ptr("text\n"), `plugin.sum: line 1 is "text"`},
		"pins that lead outside": {func(*testing.T, string) {}, ptr(sumOf("a/../../b.jar", "x")), "plugin.sum: line 1"},
		"pins out of order":      {func(*testing.T, string) {}, ptr(sumOf("b/b.jar", "x") + sumOf("a/a.jar", "x")), "a/a.jar is not behind b/b.jar"},
	} {
		t.Run(name, func(t *testing.T) {
			command, runs := maven(t, brought)
			tc.change(t, command)
			replace := map[string]*string{}
			if tc.pins != nil {
				replace[PluginFile] = tc.pins
			}
			_, err := Build(context.Background(), newStore(t), jars(t, replace), Options{Env: os.Environ(), Maven: command})
			if tc.want == "" {
				require.NoError(t, err)
				require.FileExists(t, runs)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.NoFileExists(t, runs, "the plugin was not run")
		})
	}
	_, err := Build(context.Background(), newStore(t), jars(t, map[string]*string{PluginFile: nil}), Options{Env: os.Environ(), Maven: "/nonexistent"})
	require.ErrorContains(t, err, "the plugin of Maven's that copies its jars is pinned nowhere")
}

func FuzzPluginSums(f *testing.F) {
	f.Add(minimalPlugin())
	f.Add("a/b.jar 1 sha256:" + strings.Repeat("0", 64))
	f.Add("../a.jar 1 sha256:" + strings.Repeat("0", 64) + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parsePlugin([]byte(text))
		if err != nil {
			return
		}
		for _, p := range list {
			require.True(t, filepath.IsLocal(p.path), p.path)
			require.Positive(t, p.size)
		}
	})
}
