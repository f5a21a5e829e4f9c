// Command network-policies enforces the NetworkPolicies of a node's pods.
//
// The policy engine is that of sigs.k8s.io/kube-network-policies. Its own command installs nftables rules with the
// expression `queue`, which kernels without CONFIG_NFT_QUEUE refuse, and lets a pod talk until the API server knows its
// address. Here the role pod_network installs the rules (the iptables target NFQUEUE, which such kernels have), and the
// first packet of a pod that is not known yet waits for the pod's object. While this command does not run, the kernel
// drops what it would queue.
package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	nfqueue "github.com/florianl/go-nfqueue/v2"
	"github.com/mdlayher/netlink"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

const (
	// The kubelet publishes an address some tenths of a second after the sandbox has it; a busy node takes longer.
	unknownPodWait = 10 * time.Second
	unknownPodPoll = 20 * time.Millisecond
	// Packets that wait for their pod; the kernel's queue holds maxQueued.
	maxWaiting = 256
	maxQueued  = 4096
)

// resolver finds the pod that has an address now. Pods that ended keep it in their status, while another may have it.
type resolver struct{ pods cache.Indexer }

const addressIndex = "address"

func addresses(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok || pod.Spec.HostNetwork || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return nil, nil
	}
	var found []string
	for _, address := range pod.Status.PodIPs {
		found = append(found, address.IP)
	}
	return found, nil
}

// LookupPod returns the key of the newest pod that has the address.
func (r resolver) LookupPod(address string) (string, bool) {
	objects, err := r.pods.ByIndex(addressIndex, address)
	if err != nil || len(objects) == 0 {
		return "", false
	}
	newest := objects[0].(*v1.Pod)
	for _, object := range objects[1:] {
		if pod := object.(*v1.Pod); newest.CreationTimestamp.Before(&pod.CreationTimestamp) {
			newest = pod
		}
	}
	return newest.Namespace + "/" + newest.Name, true
}

type evaluator interface {
	EvaluatePacket(context.Context, *network.Packet) (bool, error)
}

// judge decides about packets.
type judge struct {
	engine   evaluator
	resolver podinfo.IPResolver
	local    netip.Prefix
	waiting  chan struct{}
}

// unknown reports whether the packet is from or to a pod of this node that has no object with its address yet.
func (j *judge) unknown(packet *network.Packet) bool {
	for _, ip := range [][]byte{packet.SrcIP, packet.DstIP} {
		address, ok := netip.AddrFromSlice(ip)
		if !ok || !j.local.Contains(address.Unmap()) {
			continue
		}
		if _, known := j.resolver.LookupPod(address.Unmap().String()); !known {
			return true
		}
	}
	return false
}

func (j *judge) allowed(ctx context.Context, packet *network.Packet) bool {
	// a service may send a pod to itself, which no policy forbids
	if packet.SrcIP.Equal(packet.DstIP) {
		return true
	}
	allowed, err := j.engine.EvaluatePacket(ctx, packet)
	if err != nil {
		klog.ErrorS(err, "cannot evaluate, dropped", "packet", packet)
	}
	return err == nil && allowed
}

// decide calls verdict once, at once or, from another goroutine, when the packet's pod is known.
func (j *judge) decide(ctx context.Context, payload []byte, verdict func(accept bool)) {
	defer func() {
		// the parser reads beyond the end of some malformed packets
		if problem := recover(); problem != nil {
			klog.InfoS("malformed packet dropped", "problem", problem)
			verdict(false)
		}
	}()
	packet, err := network.ParsePacket(payload)
	if err != nil {
		verdict(false)
		return
	}
	if !j.unknown(&packet) {
		verdict(j.allowed(ctx, &packet))
		return
	}
	select {
	case j.waiting <- struct{}{}:
	default:
		verdict(false)
		return
	}
	go func() {
		defer func() { <-j.waiting }()
		for end := time.Now().Add(unknownPodWait); j.unknown(&packet); time.Sleep(unknownPodPoll) {
			if time.Now().After(end) || ctx.Err() != nil {
				verdict(false)
				return
			}
		}
		verdict(j.allowed(ctx, &packet))
	}()
}

// serve answers the kernel until ctx ends.
func (j *judge) serve(ctx context.Context, number uint16) error {
	queue, err := nfqueue.Open(&nfqueue.Config{
		NfQueue: number,
		// the kernel need not take apart what the network card puts together, and leaves SCTP's checksums alone
		Flags:        nfqueue.NfQaCfgFlagGSO,
		MaxPacketLen: 128, // headers
		MaxQueueLen:  maxQueued,
		Copymode:     nfqueue.NfQnlCopyPacket,
		WriteTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer queue.Close()
	packet := func(a nfqueue.Attribute) int {
		id, payload := *a.PacketID, append([]byte(nil), *a.Payload...)
		j.decide(ctx, payload, func(accept bool) {
			verdict := nfqueue.NfDrop
			if accept {
				verdict = nfqueue.NfAccept
			}
			if err := queue.SetVerdict(id, verdict); err != nil {
				klog.ErrorS(err, "the kernel did not take a verdict")
			}
		})
		return 0
	}
	broken := func(err error) int {
		var problem *netlink.OpError
		if !errors.As(err, &problem) || !(problem.Timeout() || problem.Temporary()) {
			klog.ErrorS(err, "cannot read from the queue")
		}
		return 0
	}
	if err := queue.RegisterWithErrorFunc(ctx, packet, broken); err != nil {
		return err
	}
	klog.InfoS("enforcing network policies", "queue", number, "pods", j.local)
	ready()
	<-ctx.Done()
	return nil
}

// ready tells systemd that the unit is active.
func ready() {
	if socket := os.Getenv("NOTIFY_SOCKET"); socket != "" {
		connection, err := net.Dial("unixgram", socket)
		if err == nil {
			_, err = connection.Write([]byte("READY=1"))
			_ = connection.Close()
		}
		if err != nil {
			klog.ErrorS(err, "cannot notify systemd")
		}
	}
}

func run(ctx context.Context, kubeconfig, node, hostServices string, pods netip.Prefix, queue uint16) error {
	hosts, err := readHostServices(hostServices)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// not only for speed: an empty list of rules, which allows nothing, arrives as nil, as the engine takes it
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	podInformer, namespaceInformer := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	if err := podInformer.Informer().AddIndexers(cache.Indexers{addressIndex: addresses}); err != nil {
		return err
	}
	known := resolver{podInformer.Informer().GetIndexer()}
	policies := networkpolicy.NewStandardNetworkPolicy(
		node, namespaceInformer, podInformer, factory.Networking().V1().NetworkPolicies())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	provider := podinfo.NewInformerProvider(podInformer, namespaceInformer, nil, []podinfo.IPResolver{known})
	engine := networkpolicy.NewPolicyEngine(provider, []api.PolicyEvaluator{hosts, policies})
	return (&judge{engine, known, pods, make(chan struct{}, maxWaiting)}).serve(ctx, queue)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the address of the API server and credentials")
	node := flag.String("node", "", "name of this node")
	hostServices := flag.String("host-services", "", "file with ports of hosts that are for some namespaces only")
	queue := flag.Uint("queue", 100, "number of the kernel's queue")
	var pods netip.Prefix
	flag.TextVar(&pods, "pods", netip.Prefix{}, "addresses of this node's pods, 10.244.1.0/24")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *node, *hostServices, pods, uint16(*queue)); err != nil {
		klog.ErrorS(err, "network policies are not enforced: new connections of pods are dropped")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}
