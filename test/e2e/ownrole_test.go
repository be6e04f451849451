//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/client"
)

// device is a device of Modbus/TCP on the host's loopback, which machines reach at the address of their gateway. Its
// registers hold 1000 and their address.
func device(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerModbus(conn)
		}
	}()
	return fmt.Sprintf("10.77.0.2:%d", l.Addr().(*net.TCPAddr).Port)
}

func answerModbus(conn net.Conn) {
	defer conn.Close()
	for ask := make([]byte, 12); ; {
		if _, err := io.ReadFull(conn, ask); err != nil {
			return
		}
		value := 1000 + int(ask[8])<<8 + int(ask[9])
		if _, err := conn.Write([]byte{ask[0], ask[1], 0, 0, 0, 5, ask[6], 3, 2, byte(value >> 8), byte(value)}); err != nil {
			return
		}
	}
}

// ownValkey is examples/own-valkey with its device, built, and the folder.
func ownValkey(t *testing.T) (a appliance, configs string) {
	t.Helper()
	configs = filepath.Join(t.TempDir(), "own-valkey")
	require.NoError(t, os.CopyFS(configs, os.DirFS(filepath.Join(sourceTree, "examples/own-valkey"))))
	replaceIn(t, filepath.Join(configs, "services/gateway.yaml"), "10.77.0.20:502", device(t))
	p, err := buildPlant(configs, t.TempDir(), nil, "disk")
	require.NoError(t, err)
	return appliance{p, p.bundle(t, "edge-01")}, configs
}

func replaceIn(t *testing.T, name, old, text string) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(data), old)
	require.NoError(t, os.WriteFile(name, []byte(strings.ReplaceAll(string(data), old, text)), 0o644))
}

// store is the store of a machine, and who asks it.
type store struct {
	g         *guest
	passwords map[string]string
}

// ask returns the answer to a command of a user on a connection of its own, and what went wrong.
func (s store) ask(user string, words ...string) (string, error) {
	s.g.t.Helper()
	address, err := s.g.Address("tcp", edgeIP+":6379")
	require.NoError(s.g.t, err)
	c, err := client.DialValkey(address, user, s.passwords[user])
	if err != nil {
		return "", err
	}
	defer c.Close()
	answer, err := c.Do(words...)
	return strings.Join(answer, " "), err
}

// becomes waits until a command of the default user has the answer.
func (s store) becomes(want string, words ...string) {
	s.g.t.Helper()
	s.g.within(strings.Join(words, " ")+" is "+want, func() error {
		got, err := s.ask("", words...)
		if err == nil && got != want {
			err = fmt.Errorf("the answer is %q", got)
		}
		return err
	})
}

// Roles that the plant wrote itself: a package of Debian with a file of passwords, and a program of the plant's own.
func TestRolesOfThePlantsOwnServeAreChangedAndOutliveAPowerCut(t *testing.T) {
	t.Parallel()
	a, configs := ownValkey(t)
	c := a.machine(t, "own-valkey", "6379", "8643")
	g := boot(t, c)
	first := g.running()
	secret := func(id string) string {
		require.Contains(t, a.keys.Secrets, id)
		return string(a.keys.Secrets[id].Value)
	}
	passwords := map[string]string{
		"": secret("valkey-password"), "line-a": secret("valkey-settings/valkey-line-a"), "gateway": secret("gateway-settings/valkey-gateway"),
	}
	s := store{g, passwords}

	t.Run("its roles are in the status line", func(t *testing.T) {
		require.Equal(t, []string{"gateway", "valkey"}, first.Roles)
		require.Equal(t, "active", first.Services["valkey-server.service"], first.Raw)
		require.Contains(t, first.Services, "gateway.service", first.Raw)
	})
	t.Run("the program writes what it reads", func(t *testing.T) {
		s.becomes("1000", "GET", "device:pressure")
		s.becomes("1001", "GET", "device:temperature")
	})
	t.Run("a setting is in its file", func(t *testing.T) { s.becomes("maxmemory 134217728", "CONFIG", "GET", "maxmemory") })
	t.Run("who has no password is refused, and who has a wrong one", func(t *testing.T) {
		_, err := store{g, nil}.ask("", "GET", "device:pressure")
		require.ErrorContains(t, err, "NOAUTH")
		for _, user := range []string{"", "line-a"} {
			_, err = store{g, map[string]string{user: "wrong"}}.ask(user, "PING")
			require.ErrorContains(t, err, "WRONGPASS")
		}
	})
	t.Run("a user of the settings writes its own keys alone", func(t *testing.T) {
		got, err := s.ask("line-a", "SET", "line-a:count", "42")
		require.NoError(t, err)
		require.Equal(t, "OK", got)
		_, err = s.ask("line-a", "SET", "device:pressure", "0")
		require.ErrorContains(t, err, "NOPERM")
	})
	api, err := g.Address("tcp", edgeIP+":8643")
	require.NoError(t, err)
	t.Run("its operator is told that the roles do their work", func(t *testing.T) {
		g.within("the health of both roles is ok", func() error {
			out, err := exec.Command(flashTool(t), "health", configs, "--all", "--pki", a.dir, "--node", "edge-01", "--address", "edge-01="+api).
				CombinedOutput()
			if err != nil || !regexp.MustCompile(`(?m)^.*own-roles +ok +gateway .*; valkey .*$`).Match(out) {
				return fmt.Errorf("%w: spore health says:\n%s", errors.Join(err, errors.New("not yet")), out)
			}
			return nil
		})
	})
	t.Run("a pushed setting restarts its unit alone", func(t *testing.T) {
		replaceIn(t, filepath.Join(configs, "services/valkey.yaml"), "maxMemory: 128MiB", "maxMemory: 96MiB")
		start := time.Now()
		out, err := exec.Command(flashTool(t), "push", configs, "--image", a.image, "--pki", a.dir, "--node", "edge-01",
			"--address", "edge-01="+api).CombinedOutput()
		t.Logf("push took %.0f s:\n%s", time.Since(start).Seconds(), out)
		require.NoError(t, err)
		require.Contains(t, string(out), "edge-01 has it in effect, after a restart of valkey-server.service\n")
		s.becomes("maxmemory 100663296", "CONFIG", "GET", "maxmemory")
	})
	got, err := s.ask("line-a", "SET", "line-a:last", "acknowledged")
	require.NoError(t, err)
	require.Equal(t, "OK", got)
	g.off()

	c.Name += "-again"
	g = boot(t, c)
	s.g = g
	g.running()
	t.Run("what was acknowledged is there after a power cut", func(t *testing.T) {
		s.becomes("42", "GET", "line-a:count")
		s.becomes("acknowledged", "GET", "line-a:last")
	})
	t.Run("the pushed setting is there, too", func(t *testing.T) { s.becomes("maxmemory 100663296", "CONFIG", "GET", "maxmemory") })
	t.Run("the program writes again", func(t *testing.T) {
		_, err := s.ask("", "SET", "device:pressure", "0")
		require.NoError(t, err)
		s.becomes("1000", "GET", "device:pressure")
	})
}
