import torch, json, os, sys, time, gzip, tarfile
import torch.nn as nn, torch.nn.functional as F
import torchvision.models as tv
from torch.profiler import profile, ProfilerActivity, schedule
out=os.environ['OUT']; d='/tmp/tr'; os.makedirs(d,exist_ok=True)
facts={}
torch.backends.cudnn.benchmark=False
def run(name,pair,role,mk):
    try:
        torch.manual_seed(0)
        step=mk()
        for _ in range(5): step()
        torch.cuda.synchronize()
        ts=[]
        for _ in range(3):
            s=torch.cuda.Event(enable_timing=True); e=torch.cuda.Event(enable_timing=True)
            n=10
            s.record()
            for _ in range(n): step()
            e.record(); torch.cuda.synchronize(); ts.append(s.elapsed_time(e)/n)
        ts.sort()
        with profile(activities=[ProfilerActivity.CPU,ProfilerActivity.CUDA],record_shapes=True,schedule=schedule(wait=0,warmup=2,active=2,repeat=1)) as p:
            for _ in range(4): step(); p.step()
            torch.cuda.synchronize()
        f=f'{d}/{name}.json.gz'; p.export_chrome_trace(f)
        facts[name]=dict(pair=pair,role=role,step_ms=ts[1],bytes=os.path.getsize(f)); print(name,ts[1],os.path.getsize(f),flush=True)
    except Exception as ex:
        print('FAIL',name,repr(ex)[:300],flush=True)
    torch.cuda.empty_cache()
def train(model,x,y,amp,last):
    model=model.cuda().train(); x=x.cuda()
    if last: model=model.to(memory_format=torch.channels_last); x=x.contiguous(memory_format=torch.channels_last)
    opt=torch.optim.SGD(model.parameters(),lr=1e-3)
    def step():
        opt.zero_grad(set_to_none=True)
        with torch.autocast('cuda',dtype=amp,enabled=amp is not None): l=F.cross_entropy(model(x).float().flatten(1),y)
        l.backward(); opt.step()
    return step
def infer(model,x,dt,last):
    model=model.cuda().eval().to(dt); x=x.cuda().to(dt)
    if last: model=model.to(memory_format=torch.channels_last); x=x.contiguous(memory_format=torch.channels_last)
    def step():
        with torch.inference_mode(): model(x)
    return step
class UNet(nn.Module):
    def __init__(s,c=64):
        super().__init__()
        b=lambda i,o: nn.Sequential(nn.Conv2d(i,o,3,padding=1),nn.GroupNorm(8,o),nn.SiLU(),nn.Conv2d(o,o,3,padding=1),nn.GroupNorm(8,o),nn.SiLU())
        s.d1=b(3,c); s.d2=b(c,2*c); s.d3=b(2*c,4*c); s.u2=b(6*c,2*c); s.u1=b(3*c,c); s.o=nn.Conv2d(c,10,1)
    def forward(s,x):
        a=s.d1(x); b=s.d2(F.max_pool2d(a,2)); c=s.d3(F.max_pool2d(b,2))
        u=s.u2(torch.cat([F.interpolate(c,scale_factor=2),b],1)); u=s.u1(torch.cat([F.interpolate(u,scale_factor=2),a],1))
        return s.o(u).mean((2,3))
img=lambda b,s=224: torch.randn(b,3,s,s)
lab=lambda b: torch.randint(0,10,(b,),device='cuda')
bf,hf=torch.bfloat16,torch.half
convs=[('resnet18_bf16',lambda l:train(tv.resnet18(num_classes=10),img(256),lab(256),bf,l)),('vgg11',lambda l:train(tv.vgg11(num_classes=10),img(64),lab(64),hf,l)),('vgg11bn',lambda l:train(tv.vgg11_bn(num_classes=10),img(64),lab(64),hf,l)),('unet',lambda l:train(UNet(),img(16,256),lab(16),bf,l)),('mobilenet',lambda l:train(tv.mobilenet_v2(num_classes=10),img(128),lab(128),hf,l)),('resnet50_inf',lambda l:infer(tv.resnet50(),img(256),hf,l)),('densenet',lambda l:train(tv.densenet121(num_classes=10),img(64),lab(64),hf,l)),('resnet50_small',lambda l:train(tv.resnet50(num_classes=10),img(32),lab(32),hf,l)),('resnet50_fp32',lambda l:train(tv.resnet50(num_classes=10),img(64),lab(64),None,l))]
for n,m in convs:
    run(n+'_nchw','layout_'+n,'before',lambda:m(False)); run(n+'_nhwc','layout_'+n,'after',lambda:m(True))
def mlp(h,b,amp,layers=6,bias=True):
    m=nn.Sequential(*[z for _ in range(layers) for z in (nn.Linear(h,h,bias),nn.GELU())]).cuda(); x=torch.randn(b,h,device='cuda')
    opt=torch.optim.SGD(m.parameters(),lr=1e-3)
    def step():
        opt.zero_grad(set_to_none=True)
        with torch.autocast('cuda',dtype=bf,enabled=amp): l=m(x).float().pow(2).mean()
        l.backward(); opt.step()
    return step
def enc(amp):
    m=nn.TransformerEncoder(nn.TransformerEncoderLayer(1024,16,4096,batch_first=True,dropout=0.0),6).cuda(); x=torch.randn(8,512,1024,device='cuda')
    opt=torch.optim.SGD(m.parameters(),lr=1e-3)
    def step():
        opt.zero_grad(set_to_none=True)
        with torch.autocast('cuda',dtype=bf,enabled=amp): l=m(x).float().pow(2).mean()
        l.backward(); opt.step()
    return step
def tf32(on,mk):
    def f():
        torch.set_float32_matmul_precision('high' if on else 'highest'); torch.backends.cudnn.allow_tf32=on
        return mk()
    return f
for n,mk in [('mlp2k',lambda a:mlp(2048,2048,a)),('mlp1k',lambda a:mlp(1024,1024,a)),('enc',enc)]:
    run(n+'_fp32','prec_'+n,'before',tf32(False,lambda:mk(False))); run(n+'_bf16','prec_'+n,'after',tf32(False,lambda:mk(True))); run(n+'_tf32','tf32_'+n,'after',tf32(True,lambda:mk(False)))
cn=lambda a:train(tv.resnet50(num_classes=10),img(64),lab(64),bf if a else None,False)
run('cnn_fp32','prec_cnn','before',tf32(False,lambda:cn(False))); run('cnn_bf16','prec_cnn','after',tf32(False,lambda:cn(True))); tf32(True,lambda:None)()
def gemms(m,k,n,dt=bf):
    a=torch.randn(m,k,device='cuda',dtype=dt); b=torch.randn(k,n,device='cuda',dtype=dt)
    def step():
        for _ in range(8): a@b
    return step
for n,(o,p) in dict(all=((4097,4097,4097),(4104,4104,4104)),n=((8192,4096,4099),(8192,4096,4104)),k=((4096,8191,4096),(4096,8192,4096)),vocab=((4096,1024,50257),(4096,1024,50304)),small=((1023,1023,1023),(1024,1024,1024))).items():
    run('odd_'+n,'mis_'+n,'before',lambda:gemms(*o)); run('even_'+n,'mis_'+n,'after',lambda:gemms(*p))
def loop(f,n,m,k):
    a=torch.randn(n,m,k,device='cuda',dtype=bf); b=torch.randn(n,k,m,device='cuda',dtype=bf); al=list(a.unbind()); bl=list(b.unbind())
    return (lambda: torch.bmm(a,b)) if f else (lambda:[x@y for x,y in zip(al,bl)])
run('loop_mm','tiny_loop','before',lambda:loop(False,1024,16,64)); run('loop_bmm','tiny_loop','after',lambda:loop(True,1024,16,64))
json.dump(facts,open(out+'/facts.json','w'),indent=1)
t=tarfile.open(out+'/traces.tar','w')
for n in sorted(facts): t.add(f'{d}/{n}.json.gz',n+'.json.gz') if facts[n]['role']=='before' or facts[n]['bytes']<300000 else None
t.close(); print(os.path.getsize(out+'/traces.tar'))
