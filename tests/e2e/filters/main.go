// Reads cases, a JSON object a line, and answers for each which nodes the filters of kube-scheduler refuse that look at
// other pods: InterPodAffinity and PodTopologySpread.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

type question struct {
	Namespaces []*v1.Namespace `json:"namespaces"`
	Nodes      []*v1.Node      `json:"nodes"`
	Pods       []*v1.Pod       `json:"pods"`
	Pod        *v1.Pod         `json:"pod"`
}

type answer struct {
	Affinity []string `json:"affinity"`
	Spread   []string `json:"spread"`
}

type handle struct {
	fwk.Handle
	lister  fwk.SharedLister
	factory informers.SharedInformerFactory
}

func (h handle) SnapshotSharedLister() fwk.SharedLister                 { return h.lister }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h handle) Parallelizer() fwk.Parallelizer                         { return parallelize.NewParallelizer(1) }

type filter interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

func refused(ctx context.Context, plugin fwk.Plugin, asked question, lister fwk.SharedLister) []string {
	judge := plugin.(filter)
	state := framework.NewCycleState()
	infos, err := lister.NodeInfos().List()
	check(err)
	names := []string{}
	_, status := judge.PreFilter(ctx, state, asked.Pod, infos)
	if status.IsSkip() {
		return names
	}
	if !status.IsSuccess() {
		check(fmt.Errorf("PreFilter: %v", status))
	}
	for _, info := range infos {
		if !judge.Filter(ctx, state, asked.Pod, info).IsSuccess() {
			names = append(names, info.Node().Name)
		}
	}
	return names
}

func judged(ctx context.Context, asked question) answer {
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, namespace := range asked.Namespaces {
		check(factory.Core().V1().Namespaces().Informer().GetStore().Add(namespace))
	}
	lister := cache.NewSnapshot(asked.Pods, asked.Nodes)
	h := handle{lister: lister, factory: factory}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	affinity, err := interpodaffinity.New(ctx, &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}, h, features)
	check(err)
	spread, err := podtopologyspread.New(
		ctx, runtime.Object(&config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}), h, features)
	check(err)
	return answer{refused(ctx, affinity, asked, lister), refused(ctx, spread, asked, lister)}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	metrics.Register()
	cases := bufio.NewScanner(os.Stdin)
	cases.Buffer(nil, 64<<20)
	answers := json.NewEncoder(os.Stdout)
	for cases.Scan() {
		var asked question
		check(json.Unmarshal(cases.Bytes(), &asked))
		check(answers.Encode(judged(context.Background(), asked)))
	}
	check(cases.Err())
}
