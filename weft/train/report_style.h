// The looks of report.html, and the few lines that let a finger or a mouse read values off a chart.
#pragma once

namespace weft {

inline constexpr const char* kReportStyle = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1a2029;--soft:#667085;--line:#e4e7ec;--good:#0f9d6b;--s0:#2563eb;--s1:#e8590c;--s2:#0f9d6b;--s3:#9333ea;--s4:#b45309;--s5:#db2777;--s6:#0891b2;--s7:#4b5563}
@media(prefers-color-scheme:dark){:root{--page:#0e1116;--card:#171b22;--ink:#e6e9ef;--soft:#98a2b3;--line:#2a303a;--good:#4fd1a1;--s0:#6ea8fe;--s1:#ff9f5a;--s2:#4fd1a1;--s3:#c084fc;--s4:#fbbf24;--s5:#f472b6;--s6:#22d3ee;--s7:#9ca3af}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 16px 56px}
h1{font-size:1.55rem;line-height:1.25;margin:0}
h2{font-size:1.05rem;margin:34px 0 12px}
p.sub{color:var(--soft);margin:4px 0 0;overflow-wrap:anywhere}
.state{display:inline-block;font-size:.8rem;font-weight:600;padding:2px 10px;border-radius:99px;border:1px solid var(--line);color:var(--soft);margin-left:8px;vertical-align:.2em}
.state.done{color:var(--good);border-color:currentColor}
.state.live{color:var(--s0);border-color:currentColor}
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--s5)}.s6{--c:var(--s6)}.s7{--c:var(--s7)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(132px,1fr));gap:12px;margin-top:22px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:12px}
.tile{padding:12px 14px}
.tile b{display:block;font-size:1.4rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums}
.tile small{font-weight:400;color:var(--soft)}
.tile span{color:var(--soft);font-size:.82rem}
.charts{display:grid;gap:14px;margin-top:14px}
figure{margin:0;padding:14px 14px 8px;min-width:0;position:relative;display:flex;flex-direction:column;justify-content:space-between}
figcaption{display:flex;flex-wrap:wrap;gap:2px 14px;align-items:baseline;font-size:.88rem;margin-bottom:6px}
figcaption strong{font-size:.98rem}
i{font-style:normal;color:var(--soft);overflow-wrap:anywhere}
i::before{content:"";display:inline-block;width:14px;border-top:3px solid var(--c);margin-right:6px;vertical-align:.25em}
i.dash::before{border-top-style:dashed}
i.thin::before{border-top-width:1px;opacity:.6}
/* The switch works without a script: it shows one of two drawings. */
input.log{position:absolute;opacity:0;pointer-events:none}
label{margin-left:auto;color:var(--soft);border:1px solid var(--line);border-radius:99px;padding:0 10px;cursor:pointer;white-space:nowrap;user-select:none}
input.log:checked~figcaption label{color:var(--card);background:var(--soft);border-color:var(--soft)}
input.log:focus-visible~figcaption label{outline:2px solid var(--s0)}
input.log:checked~svg.linear,input.log:not(:checked)~svg.logarithmic{display:none}
output{position:absolute;top:50px;padding:6px 10px;border-radius:8px;background:var(--card);border:1px solid var(--line);box-shadow:0 2px 8px #0002;font-size:.82rem;line-height:1.45;font-variant-numeric:tabular-nums;pointer-events:none;max-width:60%}
output:empty{display:none}
output div{display:flex;justify-content:space-between;gap:14px}
svg{display:block;width:100%;height:auto;touch-action:pan-y}
svg text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft);font-variant-numeric:tabular-nums}
svg .axis{fill:var(--soft);opacity:.85}
svg .mark{fill:var(--ink);font-weight:600;paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}
@media(max-width:520px){svg text{font-size:13.5px}}
/* Two charts a row; of an odd number, the last three share one. */
@media(min-width:886px){
.tiles{grid-template-columns:repeat(var(--columns),1fr)}
.charts{grid-template-columns:repeat(6,minmax(0,1fr))}.charts>*{grid-column:span 3}
.charts>:first-child:nth-last-child(odd)~:nth-last-child(-n+3){grid-column:span 2}
.charts>:first-child:nth-last-child(odd)~:nth-last-child(-n+3) text{font-size:13.5px}}
.grid{stroke:var(--line);stroke-width:1;fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.faint{stroke-width:1;opacity:.38}
.line{stroke:var(--c)}.line.dash{stroke-dasharray:5 4}
.dot{fill:var(--c)}
.ring{fill:none;stroke:var(--c);stroke-width:2}
.cursor{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3}
.samples{display:grid;gap:10px}
.samples.brief{grid-template-columns:repeat(auto-fill,minmax(150px,1fr))}
.sample{padding:12px 14px;min-width:0}
.sample small{color:var(--soft)}
pre{margin:6px 0 0;white-space:pre-wrap;overflow-wrap:anywhere;font:13.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre .prompt{color:var(--soft)}
details{padding:12px 14px}summary{cursor:pointer;font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:0;padding:14px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin-top:14px}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
td,th{padding:8px 14px;text-align:left;vertical-align:top;border-top:1px solid var(--line);overflow-wrap:break-word;max-width:24em}
.results td{white-space:nowrap}
tr:first-child>*{border-top:0}
th{font-weight:600}tr:first-child th{color:var(--soft)}
footer{color:var(--soft);font-size:.82rem;margin-top:34px}
)css";

inline constexpr const char* kReportScript = R"js(
for(const svg of document.querySelectorAll("svg[data-points]")){
  const [x0,x1]=svg.dataset.range.split(" ").map(Number),[l,r,t,b]=svg.dataset.frame.split(" ").map(Number);
  const box=svg.viewBox.baseVal,figure=svg.closest("figure"),out=figure.querySelector("output"),percent=svg.hasAttribute("data-percent");
  const names=[...figure.querySelectorAll("figcaption i:not(.thin)")];
  const series=svg.dataset.points.split("|").map((s,i)=>({name:names[i],points:s.split(" ").filter(Boolean).map(p=>p.split(",").map(Number))})).filter(s=>s.points.length);
  if(!series.length)continue;
  const cursor=document.createElementNS("http://www.w3.org/2000/svg","path");cursor.setAttribute("class","cursor");
  const row=(name,value)=>{const line=document.createElement("div"),number=document.createElement("b");number.textContent=value;line.append(name,number);return line};
  const show=e=>{
    const at=svg.getBoundingClientRect(),place=(e.clientX-at.left)/at.width,x=x0+(place*box.width-l)/(box.width-l-r)*(x1-x0);
    const near=s=>s.points.reduce((a,p)=>Math.abs(p[0]-x)<Math.abs(a[0]-x)?p:a),step=near(series[0])[0];
    cursor.setAttribute("d",`M${l+(step-x0)/(x1-x0)*(box.width-l-r)} ${t}V${box.height-b}`);svg.append(cursor);
    out.replaceChildren(row("step",Math.round(step)),...series.map(s=>{const v=near(s)[1];return row(s.name?s.name.cloneNode(true):"",percent?(100*v).toFixed(1)+" %":+v.toPrecision(4))}));
    out.style.left=place>.5?"96px":"auto";out.style.right=place>.5?"auto":"28px";
  };
  svg.addEventListener("pointermove",show);svg.addEventListener("pointerdown",show);
  svg.addEventListener("pointerleave",()=>{cursor.remove();out.replaceChildren()});
}
// Switches and opened sections keep their state when the page reloads itself.
for(const [query,field,event] of [["input.log","checked","change"],["details","open","toggle"]])for(const it of document.querySelectorAll(query))try{
  const key=location.pathname+"#"+it.id;
  if(sessionStorage.getItem(key))it[field]=sessionStorage.getItem(key)=="1";
  it.addEventListener(event,()=>sessionStorage.setItem(key,it[field]?"1":"0"));
}catch{}
)js";

}  // namespace weft
