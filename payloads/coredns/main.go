// Program coredns is CoreDNS with the plugins that the role dns-server needs and no other. The order of plugins in a server block
// is fixed by CoreDNS (core/dnsserver/zdirectives.go), so the order of these imports means nothing.
package main

import (
	"github.com/coredns/caddy"
	"github.com/coredns/coredns/coremain"
	"github.com/coreos/go-systemd/v22/daemon"

	// Answers.
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/local"
	_ "github.com/coredns/coredns/plugin/template"

	// What is done to questions and answers on their way.
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/any"
	_ "github.com/coredns/coredns/plugin/bufsize"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/cancel"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/transfer"

	// The server itself.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/debug"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// CoreDNS itself says nothing to systemd, for which the role would be up before anything listens.
	caddy.RegisterEventHook("systemd", func(event caddy.EventName, _ any) error {
		if event != caddy.InstanceStartupEvent {
			return nil
		}
		_, err := daemon.SdNotify(false, daemon.SdNotifyReady)
		return err
	})
	coremain.Run()
}
