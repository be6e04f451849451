package payload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spore/builder/stamp"
)

// PluginFile pins what the plugin of Maven's that runs consists of, its poms too: PATH SIZE sha256:HEX, by the paths of
// a Maven repository. Its code runs on the machine that builds.
const PluginFile = "plugin.sum"

// pluginHint says how PluginFile is written.
const pluginHint = "UPDATE=1 go test -tags integration -run Jars ./test/payloads writes " + PluginFile + " again; review the changes"

// maxPluginFiles bounds PluginFile.
const maxPluginFiles = 5000

// pluginFile is one line of PluginFile.
type pluginFile struct {
	path   string
	size   int64
	sha256 string
}

var pluginLine = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._+-]*(?:/[A-Za-z0-9][A-Za-z0-9._+-]*)+\.(?:jar|pom)) ([1-9][0-9]{0,11}) sha256:([0-9a-f]{64})$`)

// parsePlugin reads PluginFile.
func parsePlugin(text []byte) ([]pluginFile, error) {
	var out []pluginFile
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		m := pluginLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("line %d is %.100q, not PATH SIZE sha256:HEX", i+1, line)
		}
		size, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if len(out) > 0 && out[len(out)-1].path >= m[1] {
			return nil, fmt.Errorf("line %d: %s is not behind %s", i+1, m[1], out[len(out)-1].path)
		}
		if len(out) == maxPluginFiles {
			return nil, fmt.Errorf("it has more than %d lines", maxPluginFiles)
		}
		out = append(out, pluginFile{m[1], size, m[3]})
	}
	return out, nil
}

// stop is an artifact that is nowhere. As a part of the plugin it has Maven bring all others, say that this one is
// missing, and end before any code of the plugin is loaded. With the scope system no repository is asked for it.
const stop = "spore:stop:jar:0"

// stopPom is a pom.xml with nothing but the plugin and stop.
const stopPom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>spore.payloads</groupId><artifactId>plugin</artifactId><version>0</version><packaging>pom</packaging>
  <build><plugins><plugin>
    <groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>
    <dependencies><dependency><groupId>spore</groupId><artifactId>stop</artifactId><version>0</version><scope>system</scope><systemPath>/nonexistent/stop.jar</systemPath></dependency></dependencies>
  </plugin></plugins></build>
</project>
`

var (
	localRepository = regexp.MustCompile(`(?m)Using local repository at (.+?)\s*$`)
	goalFailed      = regexp.MustCompile(`(?m)^.*Failed to execute goal .*$`)
	artifactInText  = regexp.MustCompile(`[A-Za-z0-9._-]+:[A-Za-z0-9._-]+:(?:jar|pom):[A-Za-z0-9._:-]*[A-Za-z0-9]`)
)

// bringPlugin has Maven bring the plugin without running it, and returns the local repository where it lies. more are
// further words for Maven.
func bringPlugin(ctx context.Context, dir string, plugin Artifact, o Options, more ...string) (string, error) {
	file := filepath.Join(dir, "plugin.xml")
	if err := os.WriteFile(file, fmt.Appendf(nil, stopPom, plugin.Group, plugin.Name, plugin.Version), 0o600); err != nil {
		return "", err
	}
	args := append([]string{"--batch-mode", "--debug", "--no-transfer-progress", "--file", file}, more...)
	cmd := exec.CommandContext(ctx, o.Maven, append(args, plugin.String()+":"+copyGoal)...)
	cmd.Dir, cmd.Env = dir, o.Env
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return "", noMaven(o.Maven, err)
	}
	failure := goalFailed.Find(log.Bytes())
	missing := slices.DeleteFunc(artifactInText.FindAllString(string(failure), -1), func(a string) bool { return a == stop })
	switch {
	case err == nil:
		return "", fmt.Errorf("%s ran the plugin %s with a part that is nowhere", o.Maven, plugin)
	case !bytes.Contains(failure, []byte(stop)) || len(missing) > 0:
		return "", fmt.Errorf("%s does not bring the plugin %s: %w: %s", o.Maven, plugin, err, tail(errorsOf(log.Bytes())))
	}
	at := localRepository.FindSubmatch(log.Bytes())
	if at == nil {
		return "", fmt.Errorf("%s does not say where its local repository is, so that the plugin %s could be looked at", o.Maven, plugin)
	}
	return string(at[1]), nil
}

// errorsOf are the lines that a log of Maven's with everything has for people.
func errorsOf(log []byte) []byte {
	var out []byte
	for line := range bytes.Lines(log) {
		if bytes.HasPrefix(line, []byte("[ERROR]")) || bytes.HasPrefix(line, []byte("[FATAL]")) {
			out = append(out, line...)
		}
	}
	if out == nil {
		return log
	}
	return out
}

// checkPlugin has Maven bring the plugin, and refuses it when anything of it is not what PluginFile says, before any of
// it runs. The poms say which jars there are; so with the same poms a version of Maven that brings fewer of them,
// because it has them itself, is not refused.
func checkPlugin(ctx context.Context, dir string, plugin Artifact, pinned []pluginFile, o Options) error {
	repository, err := bringPlugin(ctx, dir, plugin, o)
	if err != nil {
		return err
	}
	own := strings.ReplaceAll(plugin.Group, ".", "/") + "/" + plugin.Name + "/" + plugin.Version + "/" + plugin.Name + "-" + plugin.Version + ".jar"
	if !slices.ContainsFunc(pinned, func(f pluginFile) bool { return f.path == own }) {
		return fmt.Errorf("%s does not name the plugin of %s, %s; %s", PluginFile, PomFile, own, pluginHint)
	}
	var problems []error
	for _, f := range pinned {
		path := filepath.Join(repository, filepath.FromSlash(f.path))
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && f.path != own {
			continue
		}
		if err != nil {
			return fmt.Errorf("the plugin %s: %w", plugin, err)
		}
		sum, err := stamp.SHA256(path)
		if err != nil {
			return fmt.Errorf("the plugin %s: %w", plugin, err)
		}
		if info.Size() != f.size || sum != f.sha256 {
			problems = append(problems, fmt.Errorf("%s of the plugin %s has %d bytes and sha256:%s, and %s names %d and sha256:%s: it is damaged or forged, and was not run",
				path, plugin, info.Size(), sum, PluginFile, f.size, f.sha256))
		}
	}
	return errors.Join(problems...)
}

// PluginSums makes the text of PluginFile for the payload in dir, from what a Maven with an empty local repository
// brings now.
func PluginSums(ctx context.Context, dir string, o Options) ([]byte, error) {
	pom, err := os.ReadFile(filepath.Join(dir, PomFile))
	if err != nil {
		return nil, err
	}
	plugin, err := pluginOf(pom)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", PomFile, err)
	}
	if o.Maven == "" {
		o.Maven = defaultMaven
	}
	work, err := os.MkdirTemp("", "maven-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	repository := filepath.Join(work, "repository")
	if _, err := bringPlugin(ctx, work, plugin, o, "-Dmaven.repo.local="+repository); err != nil {
		return nil, err
	}
	var out []byte
	err = filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".jar" && filepath.Ext(path) != ".pom" {
			return err
		}
		name, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum, err := stamp.SHA256(path)
		out = fmt.Appendf(out, "%s %d sha256:%s\n", filepath.ToSlash(name), info.Size(), sum)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the downloads of Maven: %w", err)
	}
	lines := strings.SplitAfter(string(out), "\n")
	slices.Sort(lines) // By whole paths, as PluginFile is read.
	out = []byte(strings.Join(lines, ""))
	_, err = parsePlugin(out)
	return out, err
}
