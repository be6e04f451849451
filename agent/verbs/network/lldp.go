package network

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"spore/agent/paths"
	"spore/wire/machine"
)

// networkd is its Varlink socket (varlink.org; systemd, src/shared/varlink-io.systemd.Network.c).
const networkd = "/run/systemd/netif/io.systemd.Network"

// Bounds of what networkd answers: time, bytes, stations.
const (
	lldpBound   = 5 * time.Second
	maxLLDP     = 1 << 20
	maxStations = 256
)

// stations asks networkd for those that speak LLDP.
func stations(ctx context.Context, root paths.Root) ([]machine.Station, error) {
	ctx, cancel := context.WithTimeout(ctx, lldpBound)
	defer cancel()
	out, err := askLLDP(ctx, root.At(networkd))
	if err != nil {
		return nil, fmt.Errorf("ask systemd-networkd for LLDP neighbours: %w", err)
	}
	return out, nil
}

func askLLDP(ctx context.Context, socket string) ([]machine.Station, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if at, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(at); err != nil {
			return nil, err
		}
	}
	if _, err := io.WriteString(conn, `{"method":"io.systemd.Network.GetLLDPNeighbors","parameters":{}}`+"\x00"); err != nil {
		return nil, err
	}
	// A message of Varlink ends with a zero byte.
	data, err := bufio.NewReader(io.LimitReader(conn, maxLLDP)).ReadBytes(0)
	if err != nil {
		return nil, fmt.Errorf("the answer was cut off or is too large: %w", err)
	}
	return parseLLDP(data[:len(data)-1])
}

// parseLLDP reads the answer.
func parseLLDP(data []byte) ([]machine.Station, error) {
	var answer struct {
		Error      string
		Parameters struct {
			Neighbors []struct {
				InterfaceName string
				Neighbors     []struct {
					ChassisID, PortID, PortDescription, SystemName, SystemDescription string
					VlanID                                                            int
				}
			}
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("the answer is malformed: %w", err)
	}
	if answer.Error != "" {
		return nil, errors.New(short(answer.Error))
	}
	out := []machine.Station{}
	for _, l := range answer.Parameters.Neighbors {
		for _, n := range l.Neighbors {
			if len(out) == maxStations {
				return out, nil
			}
			s := machine.Station{
				Link: short(l.InterfaceName), Name: short(n.SystemName), About: short(n.SystemDescription), Chassis: short(n.ChassisID),
				Port: short(n.PortID), PortIs: short(n.PortDescription),
			}
			if n.VlanID > 0 && n.VlanID < 4095 {
				s.VLAN = n.VlanID
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// short bounds a text that comes from another machine. LLDP has room for 511 bytes.
func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), 512)], "") }
