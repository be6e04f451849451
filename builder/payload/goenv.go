package payload

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// kept is the part of an environment that keptEnv names.
func kept(base []string) []string {
	var env []string
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if keptEnv[name] {
			env = append(env, kv)
		}
	}
	return env
}

// askedFor are settings that can stand in the user's GOENV file and are needed to find modules.
var askedFor = []string{"GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GOINSECURE", "GOAUTH"}

// places is the environment in which the go command finds its caches and its modules as the user set them.
func places(ctx context.Context, dir string, o Options) ([]string, error) {
	cmd := exec.CommandContext(ctx, o.Go, append([]string{"env", "-json"}, askedFor...)...)
	cmd.Dir, cmd.Env = dir, append(kept(o.Env), "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its settings (is Go installed?): %w", o.Go, err)
	}
	var values map[string]string
	if err := json.Unmarshal(out, &values); err != nil {
		return nil, fmt.Errorf("ask %s for its settings: %w", o.Go, err)
	}
	env := kept(o.Env)
	for _, name := range askedFor {
		if v := values[name]; v != "" {
			env = append(env, name+"="+v)
		}
	}
	for _, setting := range collected {
		name, _, _ := strings.Cut(setting, "=")
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			env = append(env, setting)
		}
	}
	return env, nil
}

// collected has the compiler and the linker collect garbage less often, which saves a sixth of their time, and bounds
// the memory of each (docs/measurements.md). No key has them: the bytes of a program are the same with any values.
var collected = []string{"GOGC=400", "GOMEMLIMIT=3GiB"}

// keptEnv is what the go command needs to find its caches and its modules; none of it can change what a module that
// go.sum names contains.
var keptEnv = map[string]bool{
	"HOME": true, "PATH": true, "TMPDIR": true, "USER": true, "XDG_CACHE_HOME": true, "XDG_CONFIG_HOME": true,
	"GOROOT": true, "GOPATH": true, "GOCACHE": true, "GOMODCACHE": true, "GOTMPDIR": true, "GOENV": true, "GOMAXPROCS": true, "GOGC": true, "GOMEMLIMIT": true,
	"GOPROXY": true, "GOSUMDB": true, "GONOSUMDB": true, "GOPRIVATE": true, "GONOPROXY": true, "GOINSECURE": true, "GOAUTH": true, "NETRC": true,
	"HTTP_PROXY": true, "HTTPS_PROXY": true, "NO_PROXY": true, "http_proxy": true, "https_proxy": true, "no_proxy": true,
	"SSL_CERT_FILE": true, "SSL_CERT_DIR": true,
}

// fixedEnv decides about the output. The user's GOENV file is off: what of it is needed, places has asked for. GOEXPERIMENT
// stays unset, which is the toolchain's own choice; "none" would turn off what is on by default.
func fixedEnv(toolchain string) []string {
	env := []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1",
		"GOENV=off", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOFIPS140=off", "GO111MODULE=on", "LC_ALL=C",
	}
	if toolchain != "" {
		env = append(env, "GOTOOLCHAIN="+toolchain)
	}
	return env
}
