package main

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
)

// hostServices are ports of hosts that are for the pods of some namespaces only, whatever policies a namespace has.
// No policy of Kubernetes' own can close them: a namespace without NetworkPolicies may do everything.
type hostServices map[netip.AddrPort]map[string]bool

// A namespace with this label, which only the operator can set, is admitted to all of them.
const (
	hostServicesLabel = "strata.dev/host-services"
	admitted          = "admitted"
)

// readHostServices reads lines of `address:port namespace namespace`; # begins a comment.
func readHostServices(path string) (hostServices, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found := hostServices{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		place, err := netip.ParseAddrPort(words[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		if found[place] == nil {
			found[place] = map[string]bool{}
		}
		for _, namespace := range words[1:] {
			found[place][namespace] = true
		}
	}
	return found, lines.Err()
}

func (h hostServices) Name() string { return "HostServices" }

func (h hostServices) Ready() bool { return true }

func (h hostServices) SetDataplaneSyncCallback(api.SyncFunc) {}

func (h hostServices) ManagedIPs(context.Context) ([]netip.Addr, bool, error) { return nil, true, nil }

func (h hostServices) EvaluateIngress(_ context.Context, _ *network.Packet, _, _ *api.PodInfo) (api.Verdict, error) {
	return api.VerdictNext, nil
}

// EvaluateEgress leaves to the NetworkPolicies what it does not deny.
func (h hostServices) EvaluateEgress(_ context.Context, p *network.Packet, source, _ *api.PodInfo) (api.Verdict, error) {
	address, ok := netip.AddrFromSlice(p.DstIP)
	if !ok || p.Proto != v1.ProtocolTCP {
		return api.VerdictNext, nil
	}
	namespaces, restricted := h[netip.AddrPortFrom(address.Unmap(), uint16(p.DstPort))]
	namespace := source.GetNamespace()
	if restricted && !namespaces[namespace.GetName()] && namespace.GetLabels()[hostServicesLabel] != admitted {
		return api.VerdictDeny, nil
	}
	return api.VerdictNext, nil
}
